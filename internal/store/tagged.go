package store

// Tagged is an Object whose storage tags each content of a file, as S3 does with ETags. Facts about
// a file that were read through one object hold for another object only if their tags are equal.
// Objects need not be Tagged; local files are not.
type Tagged interface {
	Object
	// Tag returns the tag of the content that was read so far: "" before the first read
	// or if the storage gave none.
	Tag() string
	// Expect sets the tag that the file had when it was read before. If the object has
	// another tag, Expect or a later read fails as Corrupt. "" expects nothing.
	Expect(tag string) error
}

// TagOf returns the tag of an object, or "" if it has none.
func TagOf(o Object) string {
	if t, ok := o.(Tagged); ok {
		return t.Tag()
	}
	return ""
}
