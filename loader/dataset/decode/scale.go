package decode

import "github.com/penstock/penstock/loader/dataset"

// ScaleCommand is the body of the action explain_scale, as JSON: a query, and the load of package scale as a text.
type ScaleCommand struct {
	Query dataset.Query
	Scale string
}

// Scale decodes the body of the action explain_scale, and sets the defaults of its query.
func Scale(text []byte) (ScaleCommand, error) {
	return command(text, []field[ScaleCommand]{
		{name: "query", must: true, read: func(d *decoder, at place, out *ScaleCommand) { out.Query = readQuery(d, at) }},
		{name: "scale", must: true, read: func(d *decoder, at place, out *ScaleCommand) { out.Scale = d.short(at, maxScale) }},
	})
}

// maxScale is the maximum number of bytes of a load.
const maxScale = 1024
