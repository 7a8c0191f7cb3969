// Package substrait takes the place of the module github.com/substrait-io/substrait, and has none
// of its definitions of functions.
//
// The library for Iceberg tables, github.com/apache/iceberg-go, parses all definitions when a
// program starts, which took 0.1 seconds of each command. It needs them to filter the rows of its
// own scans. Penstock uses the library for metadata and commits, and scans files itself. Without
// the definitions, a filtered scan of the library fails, because it does not find a function.
package substrait

import "embed"

// extensions has one file, since the parser of definitions fails without any. The file defines no
// function.
//
//go:embed extensions/none.yaml
var extensions embed.FS

// GetSubstraitExtensionsFS returns the folder "extensions", in which the library looks for
// definitions of functions.
func GetSubstraitExtensionsFS() embed.FS { return extensions }
