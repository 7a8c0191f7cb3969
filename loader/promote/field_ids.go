package promote

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
)

// fieldID returns the id in a field's metadata, or 0.
func fieldID(f arrow.Field) int {
	text, _ := f.Metadata.GetValue(catalog.FieldIDKey)
	id, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return id
}

// highestID returns the highest id of a field and the fields inside its type.
func highestID(id int, t arrow.DataType) int {
	if nested, ok := t.(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			id = max(id, highestID(fieldID(f), f.Type))
		}
	}
	return id
}

// identified returns an optional field with a field id.
func identified(name string, t arrow.DataType, id int) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true, Metadata: arrow.NewMetadata([]string{catalog.FieldIDKey}, []string{strconv.Itoa(id)})}
}
