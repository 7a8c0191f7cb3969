package dataset

import "strconv"

// SnapshotID is the id of a snapshot in a report. Its JSON form is a string, because many programs
// round integers above 2^53. Pins and cursors have ids as numbers: clients return them unchanged.
type SnapshotID int64

// MarshalText implements encoding.TextMarshaler.
func (s SnapshotID) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(s), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *SnapshotID) UnmarshalText(text []byte) error {
	id, err := strconv.ParseInt(string(text), 10, 64)
	*s = SnapshotID(id)
	return err
}
