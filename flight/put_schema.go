package flight

import "github.com/penstock/penstock/internal/fault"

// Slots of the tables' fields in the header of a schema, and limits of what it may have.
const (
	headerSchema                             = 1       // of the union MessageHeader
	slotMessageMetadata                      = 4       // of Message
	slotFields, slotSchemaMetadata           = 1, 2    // of Schema
	slotName, slotTypeKind, slotType         = 0, 2, 3 // of Field
	slotChildren, slotFieldMetadata          = 5, 6    // of Field
	slotZone                                 = 1       // of Timestamp
	slotKey, slotValue                       = 0, 1    // of KeyValue
	typeTimestamp, typeUnion                 = 10, 14  // of the union Type
	maxSchemaDepth, maxSchemaFields, pointer = 64, 1 << 16, 4
	sharedTexts                              = 4 // times that the texts of a header may have its bytes: writers may name one several times
)

// schemaCheck bounds what the Arrow library allocates for a header: it takes lengths of lists as they are, and copies texts
// each time that something names them.
type schemaCheck struct {
	bytes  []byte
	fields int // that it may still have
	texts  int // bytes that its texts may still have
}

// checkSchema returns an error unless the message has a schema that can be decoded in a few times its bytes.
func (m *putMessage) checkSchema() error {
	root := flatTable{m.header, flatTable{bytes: m.header}.uint32At(0)}
	c := &schemaCheck{bytes: m.header, fields: maxSchemaFields, texts: sharedTexts * len(m.header)}
	of, ok := root.table(slotHeader)
	if !ok || root.byteOf(slotHeaderType) != headerSchema || !c.metadata(root, slotMessageMetadata) ||
		!c.metadata(of, slotSchemaMetadata) || !c.nested(of, slotFields, 0) {
		return fault.InvalidField("descriptor", "the first message has no schema of at most %d columns, without unions", maxSchemaFields).
			WithRemedy("send the schema with the descriptor, as the libraries of Arrow write it")
	}
	return nil
}

// checkMetadata is the check of the metadata of a message with rows.
func (m *putMessage) checkMetadata() error {
	root := flatTable{m.header, flatTable{bytes: m.header}.uint32At(0)}
	c := &schemaCheck{bytes: m.header, texts: sharedTexts * len(m.header)}
	if !c.metadata(root, slotMessageMetadata) {
		return fault.New(fault.Invalid, "the metadata of a message is longer than the message").WithRemedy("write the rows with a library of Arrow")
	}
	return nil
}

// list returns the places of the entries of a list; false if it is longer than the bytes.
func (c *schemaCheck) list(of flatTable, slot int) ([]int64, bool) {
	at := of.field(slot)
	if at == 0 {
		return nil, true
	}
	all := of.vector(slot, pointer)
	return all, len(all) == of.uint32At(at+of.uint32At(at))
}

// text counts a text.
func (c *schemaCheck) text(of flatTable, slot int) bool {
	if at := of.field(slot); at > 0 {
		c.texts -= of.uint32At(at + of.uint32At(at))
	}
	return c.texts >= 0
}

// metadata checks a list of keys and values.
func (c *schemaCheck) metadata(of flatTable, slot int) bool {
	all, ok := c.list(of, slot)
	c.texts -= pointer * len(all)
	for _, at := range all {
		pair := flatTable{c.bytes, int(at) + of.uint32At(int(at))}
		ok = ok && c.text(pair, slotKey) && c.text(pair, slotValue)
	}
	return ok
}

// nested checks a list of fields, and those in them.
func (c *schemaCheck) nested(of flatTable, slot, depth int) bool {
	all, ok := c.list(of, slot)
	if c.fields -= len(all); c.fields < 0 || depth > maxSchemaDepth {
		return false
	}
	for _, at := range all {
		f := flatTable{c.bytes, int(at) + of.uint32At(int(at))}
		kind := f.byteOf(slotTypeKind)
		if kind == typeUnion || !c.text(f, slotName) || !c.metadata(f, slotFieldMetadata) {
			return false
		}
		if typed, has := f.table(slotType); has && kind == typeTimestamp && !c.text(typed, slotZone) {
			return false
		}
		if !c.nested(f, slotChildren, depth+1) {
			return false
		}
	}
	return ok
}
