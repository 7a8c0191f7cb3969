package decode

import "github.com/penstock/penstock/loader/dataset"

// Cursors decodes a cursor or a list of them, as in a query.
func Cursors(text []byte) (dataset.Cursors, error) {
	return parse(text, "cursor", readCursors)
}

// Pin decodes a pin, as in a cursor.
func Pin(text []byte) (dataset.Pin, error) { return parse(text, "pin", readPin) }
