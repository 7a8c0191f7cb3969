package warehouse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
)

// scripts returns prefixes for the names of partition fields. Avro's grammar allows only names with
// the first prefix.
func scripts() []string { return []string{"", "größe_", "日本_", "страна_"} }

// newScript chooses the prefix of the names of a table's partition fields.
func newScript(seed uint64) string {
	all := scripts()
	return all[rand.New(rand.NewPCG(seed, 31)).IntN(len(all))]
}

// iceberg-go 0.7.0 cannot write a manifest that has a name with characters beyond ASCII or two
// partition fields of the same decimal type. So manifests are first written with other names, and
// with the second field as bytes of the same length. Then spell changes the schema in the header to
// the schema that Iceberg's Java library would write. The records do not change.
const (
	spelledLater = "spelled_later_"        // prefix of temporary names, longer than each of scripts
	twinColumn   = spelledLater + "column" // column with the type of the second field
	twinID       = 90_000                  // its field id
)

// twin returns the width of a partition field's values if an earlier field has the same
// decimal type; otherwise 0.
func twin(fields []iceberg.NestedField, at int) int {
	t, ok := fields[at].Type.(iceberg.DecimalType)
	for _, f := range fields[:at] {
		if earlier, is := f.Type.(iceberg.DecimalType); ok && is && earlier.Equals(t) {
			return decimalBytes(t.Precision())
		}
	}
	return 0
}

// decimalBytes returns the minimum number of bytes that can hold all decimals of a precision.
func decimalBytes(precision int) int {
	const bitsPerDigit, digits = 3322, 1000 // log2(10) is 3.322, rounded up
	return (precision*bitsPerDigit/digits + 1 + 8) / 8
}

// twinValue returns a decimal's unscaled value as width bytes.
func twinValue(v any, width int) (any, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // a partition value that is null
	}
	d, ok := v.(iceberg.DecimalLiteral)
	if !ok {
		return nil, fmt.Errorf("%v is no decimal", v)
	}
	high, low := uint64(d.Val.HighBits()), d.Val.LowBits()
	all := make([]byte, 16)
	for i := range 8 {
		all[i], all[8+i] = byte(high>>(56-8*i)), byte(low>>(56-8*i))
	}
	return all[16-width:], nil
}

// unspelled returns the spec and the schema with which iceberg-go first writes a manifest.
func (w *table) unspelled(spec *iceberg.PartitionSpec, schema *iceberg.Schema) (iceberg.PartitionSpec, *iceberg.Schema) {
	types := spec.PartitionType(schema).FieldList
	var fields []iceberg.PartitionField
	for i := range types {
		f := spec.Field(i)
		f.Name = spelledLater + strings.TrimPrefix(f.Name, w.script)
		if width := twin(types, i); width > 0 {
			schema = iceberg.NewSchema(schema.ID, append(schema.Fields(), iceberg.NestedField{ID: twinID, Name: twinColumn, Type: iceberg.FixedTypeOf(width)})...)
			f.SourceIDs, f.Transform = []int{twinID}, iceberg.IdentityTransform{}
		}
		fields = append(fields, f)
	}
	return iceberg.NewPartitionSpecID(spec.ID(), fields...), schema
}

// decimalType is the name under which iceberg-go defines a decimal.
const decimalType = `"fixed"`

var (
	laterName = regexp.MustCompile(`"` + spelledLater + `([^"]*)"`)
	twinType  = regexp.MustCompile(`\{"name":"fixed_\d+","size":\d+,"type":"fixed"\}`)
)

// spell changes the header of a manifest. Each text is padded with spaces to its old length.
func (w *table) spell(content []byte, twins bool) []byte {
	mark := content[len(content)-16:]
	header := bytes.Index(content, mark)
	spelled := laterName.ReplaceAllFunc(content[:header], func(name []byte) []byte {
		of := laterName.FindSubmatch(name)[1]
		return padded([]byte(`"`+w.script+string(of)+`"`), len(name))
	})
	if twins {
		spelled = twinType.ReplaceAllFunc(spelled, func(t []byte) []byte { return padded([]byte(decimalType), len(t)) })
	}
	return append(spelled, content[header:]...)
}

func padded(text []byte, length int) []byte {
	return append(slices.Clip(text), bytes.Repeat([]byte(" "), length-len(text))...)
}

// partitioning has the kinds of partition fields that a table's files had, by the names that
// Coverage uses for them.
type partitioning map[string]bool

// note adds the kinds of the fields of a file's spec.
func (p *partitioning) note(spec *iceberg.PartitionSpec, schema *iceberg.Schema, script string) {
	if *p == nil {
		*p = partitioning{}
	}
	types := spec.PartitionType(schema).FieldList
	for i, f := range types {
		switch f.Type.(type) {
		case iceberg.DecimalType:
			(*p)["decimals"] = true
		case iceberg.UUIDType:
			(*p)["UUIDs"] = true
		case iceberg.FixedType:
			(*p)["fixed bytes"] = true
		}
		if twin(types, i) > 0 {
			(*p)["decimals of one type"] = true
		}
		if script != "" {
			(*p)["names beyond ASCII"] = true
		}
	}
}
