package decode

import "time"

// Status checks the body of the action status, which has no fields and may be empty.
func Status(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_, err := command[struct{}](text, nil)
	return err
}

// StallCommand is the body of the action stall, as JSON. Its values are those that a stream can have.
type StallCommand struct {
	Dataset string  `json:"dataset"` // "" if the query carried it
	Plan    string  `json:"plan"`
	Rows    int64   `json:"rows"` // received
	Batches int64   `json:"batches"`
	Seconds float64 `json:"seconds"`
	Waited  float64 `json:"waited"` // of the seconds
}

const (
	// maxReported bounds the seconds of one report, so that sums do not overflow.
	maxReported = 30 * 24 * time.Hour
	// maxReceived bounds the rows and batches of one report: metrics are floats, which are exact up to this number.
	maxReceived = 1 << 53
)

// Stall decodes the body of the action stall.
func Stall(text []byte) (StallCommand, error) {
	return parse(text, "body", func(d *decoder, at place) StallCommand {
		var out StallCommand
		object(d, at, &out, []field[StallCommand]{
			{name: "dataset", read: func(d *decoder, at place, out *StallCommand) { out.Dataset = d.text(at) }},
			{name: "plan", read: func(d *decoder, at place, out *StallCommand) { out.Plan = d.text(at) }},
			{name: "rows", read: func(d *decoder, at place, out *StallCommand) { out.Rows = d.whole(at, 0, maxReceived) }},
			{name: "batches", read: func(d *decoder, at place, out *StallCommand) { out.Batches = d.whole(at, 0, maxReceived) }},
			{name: "seconds", read: func(d *decoder, at place, out *StallCommand) { out.Seconds = d.number(at, 0, maxReported.Seconds()) }},
			{name: "waited", read: func(d *decoder, at place, out *StallCommand) { out.Waited = d.number(at, 0, maxReported.Seconds()) }},
		})
		if d.sound("seconds", "waited") && out.Waited > out.Seconds {
			d.fail("waited", "must be at most the seconds, %v, not %v", out.Seconds, out.Waited)
		}
		return out
	})
}
