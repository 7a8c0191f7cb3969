package commit

import (
	"path"
	"regexp"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/digest"
)

// OwnPrefix begins the names of all files that are written for a change, except metadata
// files: other programs find the version of a table at the beginning of their names.
const OwnPrefix = "penstock-"

// FilePrefix begins the names of all files that are written for a change with a token.
func FilePrefix(token string) string {
	return OwnPrefix + digest.Of(tokenOf{token})[:filePrefixDigits]
}

// filePrefixDigits is the length of the digest in the names of files.
const filePrefixDigits = 16

// tokenOf is the input of the digest in the names of files.
type tokenOf struct{ token string }

// AttemptName returns a random name. It distinguishes the files of an attempt from the files of other attempts with the same
// token, which may belong to the table.
func AttemptName() string { return uuid.NewString()[:attemptDigits] }

// attemptDigits is the length of the names of attempts.
const attemptDigits = 8

// MetadataID returns a random uuid (version 8 of RFC 9562) for the name of a metadata file,
// which Owned recognizes.
func MetadataID() string {
	id := uuid.New()
	copy(id[:], metadataMark)
	const version, number = 6, 8 << 4 // the byte with the version, and its upper half
	id[version] = id[version]&0xf | number
	return id.String()
}

// metadataMark begins the uuids of our metadata files.
const metadataMark = "pensto"

// ownMetadata matches the name of a metadata file of ours.
var ownMetadata = regexp.MustCompile(`^\d+-70656e73-746f-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}(\.[a-z]+)?\.metadata\.json$`)

// ownFile matches the name of another file of ours: FilePrefix, the digest of the change, and a dash.
var ownFile = regexp.MustCompile(`^penstock-[0-9a-f]{16}-`)

// Owned reports whether a file was written for a change, by its name.
func Owned(location string) bool {
	name := path.Base(location)
	return ownFile.MatchString(name) || ownMetadata.MatchString(name)
}
