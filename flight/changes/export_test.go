package changes

// Messages of DoPut, as clients decode them.
type (
	PutResult = putResult
	PutBegins = putBegins
)
