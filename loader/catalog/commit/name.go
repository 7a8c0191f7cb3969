package commit

import (
	"path"
	"regexp"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/digest"
)

// OwnPrefix is the beginning of the names of all files that are written for a change, except
// metadata files. The name of a metadata file must begin with the table's version, because other
// programs read it there.
const OwnPrefix = "penstock-"

// FilePrefix returns the beginning of the names of all files that are written for the change with
// the given token.
func FilePrefix(token string) string {
	return OwnPrefix + digest.Of(tokenOf{token})[:filePrefixDigits]
}

// filePrefixDigits is the length of the digest in the names of files.
const filePrefixDigits = 16

// tokenOf is the input of the digest in the names of files.
type tokenOf struct{ token string }

// AttemptName returns a random name. It distinguishes the files of one attempt from those of other
// attempts with the same token, which may already belong to the table.
func AttemptName() string { return uuid.NewString()[:attemptDigits] }

// attemptDigits is the length of the names of attempts.
const attemptDigits = 8

// MetadataID returns a random uuid (version 8 of RFC 9562) for the name of a metadata file. Owned
// recognizes such names.
func MetadataID() string {
	id := uuid.New()
	copy(id[:], metadataMark)
	const version, number = 6, 8 << 4 // the byte with the version, and its upper half
	id[version] = id[version]&0xf | number
	return id.String()
}

// metadataMark is the beginning of the uuids in the names of Penstock's metadata files.
const metadataMark = "pensto"

// ownMetadata matches the names of metadata files that Penstock wrote.
var ownMetadata = regexp.MustCompile(`^\d+-70656e73-746f-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}(\.[a-z]+)?\.metadata\.json$`)

// ownFile matches the names of the other files that Penstock wrote. They begin with a FilePrefix,
// which ends with a digest, and a dash.
var ownFile = regexp.MustCompile(`^penstock-[0-9a-f]{16}-`)

// Owned reports whether the name of a file says that Penstock wrote it for a change.
func Owned(location string) bool {
	name := path.Base(location)
	return ownFile.MatchString(name) || ownMetadata.MatchString(name)
}
