package manifests

import (
	"fmt"
	"strings"

	"github.com/apache/iceberg-go"
)

// avroSpec returns a partition spec in which all field names are valid in Avro: it replaces the
// other characters in the same way as other writers. Readers find partition values by field id, not
// by name.
func avroSpec(spec iceberg.PartitionSpec) iceberg.PartitionSpec {
	var fields []iceberg.PartitionField
	for i := range spec.NumFields() {
		f := spec.Field(i)
		f.Name = avroName(f.Name)
		fields = append(fields, f)
	}
	return iceberg.NewPartitionSpecID(spec.ID(), fields...)
}

// avroName returns a valid Avro name for a field: it has only ASCII letters, digits and
// underscores, and does not begin with a digit.
func avroName(name string) string {
	var out strings.Builder
	for i, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', i > 0 && '0' <= c && c <= '9':
			out.WriteRune(c)
		case '0' <= c && c <= '9':
			out.WriteString("_" + string(c))
		default:
			fmt.Fprintf(&out, "_x%X", c)
		}
	}
	return out.String()
}
