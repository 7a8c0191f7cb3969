package s3

// intent is the purpose of an operation at a location.
type intent int

const (
	reads  intent = iota // a file
	writes               // a file is created or removed
	lists                // a folder
)

// verb returns the name of the operation, for errors.
func (i intent) verb() string {
	switch i {
	case writes:
		return "write"
	case lists:
		return "list"
	case reads:
	}
	return "read"
}

// failed returns what the store did instead, up to the location, for errors.
func (i intent) failed(how Outcome) string {
	subject := " file"
	if i == lists {
		subject = " folder"
	}
	if how == Refused {
		return "refuses to " + i.verb() + subject
	}
	switch i {
	case writes:
		return "did not take" + subject
	case lists:
		return "did not list" + subject
	case reads:
	}
	return "did not give" + subject
}

// right returns the remedy that names the right which the credentials may lack.
func (i intent) right() string {
	switch i {
	case writes:
		return "let the credentials (s3.access-key-id, s3.profile-name, …) write and delete objects below the table's folder, and abort uploads there"
	case lists:
		return "let the credentials (s3.access-key-id, s3.profile-name, …) list the bucket and its unfinished uploads"
	case reads:
	}
	return "check that the credentials (s3.access-key-id, s3.profile-name, …) are correct and can read the bucket, and that endpoint and region are those of the bucket"
}
