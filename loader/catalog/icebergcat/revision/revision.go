package revision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// Revision is what a commit changes in the metadata of a table. It moves a branch, perhaps to a new
// snapshot, it may add a schema or make one current, and it may set the statistics of a snapshot. A
// revision without a branch changes only schemas and statistics.
type Revision struct {
	Branch   string    // "": no branch is moved, but main must be at From, unless From is 0
	From, To int64     // snapshots; 0: the branch does not exist
	Snapshot *Snapshot // the snapshot To, if it is new
	Schema   *Schema   // nil keeps the current one
	// Statistics is the new statistics file of a snapshot; nil keeps all statistics files.
	Statistics *Statistics
}

// Snapshot is a snapshot, in the JSON form of the metadata.
type Snapshot struct {
	ID       int64             `json:"snapshot-id"`
	Parent   *int64            `json:"parent-snapshot-id,omitempty"`
	Sequence int64             `json:"sequence-number,omitempty"`
	Time     int64             `json:"timestamp-ms"`
	Summary  map[string]string `json:"summary"`
	List     string            `json:"manifest-list"`
	Schema   int               `json:"schema-id"`
	FirstRow *int64            `json:"first-row-id,omitempty"`
	Rows     *int64            `json:"added-rows,omitempty"`
}

// Schema is a schema to add to the table, to make current, or both.
type Schema struct {
	ID         int
	LastColumn int
	Text       json.RawMessage // nil: the table already has the schema
	Current    bool
}

// number encodes a number.
func number(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

// appended returns a JSON list with one more value. A nil list counts as empty.
func appended(list, value json.RawMessage) (json.RawMessage, error) {
	var values []json.RawMessage
	if list != nil {
		if err := json.Unmarshal(list, &values); err != nil {
			return nil, err
		}
	}
	values = append(values, value)
	return append(append([]byte{'['}, bytes.Join(rawTexts(values), []byte{','})...), ']'), nil
}

// revised returns the text of a table's metadata after a revision. Everything that the revision
// does not concern keeps its text; see tagged.
func revised(m *metadata.Loaded, r Revision, now time.Time) ([]byte, error) {
	object, err := members(m.Text)
	if err != nil {
		return nil, err
	}
	updated := max(now.UnixMilli(), m.LastUpdatedMillis())
	if r.Snapshot != nil {
		updated = max(updated, r.Snapshot.Time)
	}
	if object, err = r.addTo(object, m); err != nil {
		return nil, err
	}
	if r.Branch == icetable.MainBranch && r.To == 0 {
		object = set(object, "current-snapshot-id", noCurrent(m.Version()))
	}
	if r.Branch == icetable.MainBranch && r.To != 0 {
		moved := updated
		if r.Snapshot != nil {
			moved = r.Snapshot.Time
		}
		log, err := appended(find(object, "snapshot-log"), fmt.Appendf(nil, `{"timestamp-ms":%d,"snapshot-id":%d}`, moved, r.To))
		if err != nil {
			return nil, err
		}
		object = set(set(object, "current-snapshot-id", number(r.To)), "snapshot-log", log)
	}
	if r.Branch != "" {
		refs, err := withBranch(m, find(object, "refs"), r)
		if err != nil {
			return nil, err
		}
		object = set(object, "refs", refs)
	}
	if object, err = logged(m, set(object, "last-updated-ms", number(updated))); err != nil {
		return nil, err
	}
	return written(object)
}

// addTo adds the schema, the snapshot and the statistics to metadata.
func (r Revision) addTo(object []member, m *metadata.Loaded) (_ []member, err error) {
	if r.Schema != nil {
		object, err = r.Schema.addTo(object, m)
	}
	if r.Snapshot != nil && err == nil {
		object, err = r.Snapshot.addTo(object, m)
	}
	if r.Statistics != nil && err == nil {
		object, err = r.Statistics.addTo(object)
	}
	return object, err
}

// logged adds the current metadata file to the log of metadata files, unless the table is new and
// so has no current file.
func logged(m *metadata.Loaded, object []member) ([]member, error) {
	if m.Unsaved {
		return object, nil
	}
	log, err := withLog(m, find(object, "metadata-log"))
	if err == nil {
		log, err = cut(m, log)
	}
	return set(object, "metadata-log", log), err
}

// noCurrent returns the value of current-snapshot-id for a table in which main has no snapshot, as
// other writers write it in the given format version.
func noCurrent(version int) json.RawMessage {
	if version >= metadata.LineageVersion {
		return json.RawMessage("null")
	}
	return number(-1)
}

// addTo adds the snapshot to metadata.
func (s *Snapshot) addTo(object []member, m *metadata.Loaded) ([]member, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	snapshots, err := appended(find(object, "snapshots"), text)
	if err != nil {
		return nil, err
	}
	object = set(object, "snapshots", snapshots)
	if m.Version() > 1 {
		object = set(object, "last-sequence-number", number(s.Sequence))
	}
	if s.Rows != nil {
		object = set(object, "next-row-id", number(m.NextRowID()+*s.Rows))
	}
	return object, nil
}

// addTo adds the schema to the metadata, makes it current, or both. In format version 1, it also
// writes the current schema into the field schema.
func (s *Schema) addTo(object []member, m *metadata.Loaded) ([]member, error) {
	if find(object, "schemas") == nil {
		return nil, errors.New("it has no list of schemas")
	}
	text := s.Text
	if text != nil {
		schemas, err := appended(find(object, "schemas"), text)
		if err != nil {
			return nil, err
		}
		object = set(object, "schemas", schemas)
	} else {
		var err error
		if text, err = schemaText(m, s.ID); err != nil {
			return nil, err
		}
	}
	if s.Current {
		object = set(object, "current-schema-id", number(int64(s.ID)))
		if m.Version() == 1 && find(object, "schema") != nil {
			object = set(object, "schema", text)
		}
	}
	return set(object, "last-column-id", number(int64(s.LastColumn))), nil
}

// withBranch returns a table's refs after the revision: with the branch at its new snapshot, or
// without the branch.
func withBranch(m *metadata.Loaded, text json.RawMessage, r Revision) (json.RawMessage, error) {
	refs, err := refsOf(m, text)
	if err != nil {
		return nil, err
	}
	if r.To == 0 {
		return written(slices.DeleteFunc(refs, func(one member) bool { return one.name == r.Branch }))
	}
	object := []member{}
	if old := find(refs, r.Branch); old != nil {
		object, err = members(old)
	}
	if err != nil {
		return nil, err
	}
	ref, err := written(set(set(object, "snapshot-id", number(r.To)), "type", json.RawMessage(`"branch"`)))
	if err != nil {
		return nil, err
	}
	return written(set(refs, r.Branch, ref))
}

// The table properties that limit the log of metadata files, and the default limit.
const (
	previousProperty   = "write.metadata.previous-versions-max"
	removeProperty     = "write.metadata.delete-after-commit.enabled"
	defaultPreviousMax = 100
)

// cut drops the oldest entries of a metadata log, according to the table's properties. If these say
// that the files of dropped entries must also be removed, cut drops nothing and leaves both to the
// next writer.
func cut(m *metadata.Loaded, log json.RawMessage) (json.RawMessage, error) {
	most := defaultPreviousMax
	if n, err := strconv.Atoi(m.Properties()[previousProperty]); err == nil && n > 0 {
		most = n
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(log, &entries); err != nil {
		return nil, err
	}
	if m.Properties()[removeProperty] == "true" || len(entries) <= most {
		return log, nil
	}
	entries = entries[len(entries)-most:]
	return append(append([]byte{'['}, bytes.Join(rawTexts(entries), []byte{','})...), ']'), nil
}

// File returns the content of the new metadata file of a revision, after checking that it can be
// parsed and has exactly the intended changes.
func File(m *metadata.Loaded, r Revision, location string, now time.Time) ([]byte, error) {
	if err := m.File.Charge(copies * int64(len(m.Text))); err != nil {
		return nil, err
	}
	text, err := revised(m, r, now)
	if err != nil {
		return nil, metafile.Corrupt(m.Name, m.File.Location, "metadata of table %s cannot be changed: %w", m.Name, err)
	}
	read, err := m.With(text)
	if err != nil {
		return nil, err
	}
	if err := onlyDiffers(m, read, r); err != nil {
		return nil, fault.New(fault.Internal, "the new metadata of table %s is wrong: %w", m.Name, err).In(m.Name, location)
	}
	return metafile.Pack(location, text)
}

// onlyDiffers returns an error if the new metadata read differs from the old metadata m in more, or
// in less, than the revision.
func onlyDiffers(m *metadata.Loaded, read *metadata.Loaded, r Revision) error {
	snapshots, schemas := len(m.Snapshots()), len(m.Schemas())
	if r.Snapshot != nil {
		snapshots++
	}
	current := m.CurrentSchema().ID
	if r.Schema != nil && r.Schema.Text != nil {
		schemas++
	}
	if r.Schema != nil && r.Schema.Current {
		current = r.Schema.ID
	}
	refs := map[string]int64{}
	for name, ref := range read.Refs() {
		refs[name] = ref.SnapshotID
	}
	for name, ref := range m.Refs() {
		if name != r.Branch && refs[name] != ref.SnapshotID {
			return fmt.Errorf("its ref %s was changed", name)
		}
	}
	head := refs[r.Branch]
	if r.Branch == "" {
		head = r.To
	}
	switch {
	case read.TableUUID() != m.TableUUID() || read.Version() != m.Version() || read.Location() != m.Location():
		return errors.New("it is of another table")
	case len(read.Snapshots()) != snapshots || len(read.Schemas()) != schemas:
		return errors.New("its snapshots or schemas are not those that it should have")
	case read.CurrentSchema().ID != current:
		return fmt.Errorf("its current schema is %d", read.CurrentSchema().ID)
	case !slices.EqualFunc(r.Statistics.expected(m), slices.Collect(read.Statistics()), sameStatistics):
		return errors.New("its statistics files are not those that it should have")
	case !read.SameUnknownRefs(m):
		return errors.New("its refs of unknown kinds were changed")
	case head != r.To:
		return fmt.Errorf("its branch %s is at %d", r.Branch, head)
	case r.To != 0 && read.SnapshotByID(r.To) == nil:
		return fmt.Errorf("it has no snapshot %d", r.To)
	}
	return nil
}

// copies is the number of copies of the metadata's text that exist while it is rewritten: its
// parts, the new text, and the compressed text. The memory for parsing is charged in addition.
const copies = 3
