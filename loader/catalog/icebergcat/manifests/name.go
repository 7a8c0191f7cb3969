package manifests

import (
	"fmt"
	"strings"

	"github.com/apache/iceberg-go"
)

// avroSpec returns a partition spec whose field names are names of Avro, as other writers replace them. Readers find
// partition values by field id.
func avroSpec(spec iceberg.PartitionSpec) iceberg.PartitionSpec {
	var fields []iceberg.PartitionField
	for i := range spec.NumFields() {
		f := spec.Field(i)
		f.Name = avroName(f.Name)
		fields = append(fields, f)
	}
	return iceberg.NewPartitionSpecID(spec.ID(), fields...)
}

// avroName returns a name with letters, digits and underscores of ASCII only, which does not begin with a digit.
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
