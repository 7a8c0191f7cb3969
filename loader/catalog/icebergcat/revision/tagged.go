package revision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// member is a member of a JSON object. Its value is not decoded.
type member struct {
	name  string
	value json.RawMessage
}

// members parses a JSON object. It returns an error for a repeated name.
func members(text []byte) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.Join(errors.New("it is not a JSON object"), err)
	}
	var out []member
	seen := map[string]bool{}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: fmt.Sprint(name)}
		if seen[m.name] {
			return nil, fmt.Errorf("it has %s twice", m.name)
		}
		seen[m.name] = true
		if err := decoder.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	_, err := decoder.Token()
	return out, err
}

// set replaces the value of a member, or appends the member if the object does not have it.
func set(object []member, name string, value json.RawMessage) []member {
	for i := range object {
		if object[i].name == name {
			object[i].value = value
			return object
		}
	}
	return append(object, member{name, value})
}

// find returns the value of a member, or nil if the member is missing or null.
func find(object []member, name string) json.RawMessage {
	for _, m := range object {
		if m.name == name && !bytes.Equal(m.value, []byte("null")) {
			return m.value
		}
	}
	return nil
}

// written encodes an object as JSON.
func written(object []member) (json.RawMessage, error) {
	var out bytes.Buffer
	for i, m := range object {
		out.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(m.value)
	}
	if len(object) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// TagFile returns the content of a new metadata file that sets a tag, after checking that it can be
// parsed and that nothing else was changed.
func TagFile(meta *metadata.Loaded, tag locator.Tag, location string, now time.Time) ([]byte, error) {
	if err := meta.File.Charge(copies * int64(len(meta.Text))); err != nil {
		return nil, err
	}
	text, err := tagged(meta, tag, now)
	if err != nil {
		return nil, metafile.Corrupt(meta.Name, meta.File.Location, "metadata of table %s cannot be read: %w", meta.Name, err)
	}
	read, err := meta.With(text)
	if err != nil {
		return nil, err
	}
	same := read.TableUUID() == meta.TableUUID() && read.Version() == meta.Version() && len(read.Snapshots()) == len(meta.Snapshots())
	same = same && read.SameUnknownRefs(meta)
	refs := 0
	for name, ref := range read.Refs() {
		refs++
		if name == tag.Name {
			same = same && ref.SnapshotID == tag.Snapshot && ref.MaxRefAgeMs != nil && *ref.MaxRefAgeMs == tag.MaxAge.Milliseconds()
		}
	}
	for range meta.Refs() {
		refs--
	}
	if more := map[bool]int{false: 1, true: 0}[tag.There]; !same || refs != more {
		return nil, fault.New(fault.Internal, "the new metadata of table %s differs in more than the tag", meta.Name).In(meta.Name, location)
	}
	return metafile.Pack(location, text)
}

// tagged returns the text of a table's metadata with a tag. Everything else keeps its text, even if
// this version does not know what it means: numbers keep all their digits, and members keep their
// order.
func tagged(m *metadata.Loaded, tag locator.Tag, now time.Time) ([]byte, error) {
	object, err := members(m.Text)
	if err != nil {
		return nil, err
	}
	refs, err := withRef(m, find(object, "refs"), tag)
	if err != nil {
		return nil, err
	}
	log, err := withLog(m, find(object, "metadata-log"))
	if err != nil {
		return nil, err
	}
	// Readers refuse metadata whose time is before the times in its logs.
	updated := max(now.UnixMilli(), m.LastUpdatedMillis())
	object = set(object, "last-updated-ms", strconv.AppendInt(nil, updated, 10))
	object = set(object, "metadata-log", log)
	return written(set(object, "refs", refs))
}

// refsOf returns a table's refs. In a table without refs, main is implicitly the current snapshot; a table with refs must
// name it.
func refsOf(m *metadata.Loaded, text json.RawMessage) (refs []member, err error) {
	if text != nil {
		if refs, err = members(text); err != nil {
			return nil, err
		}
	}
	if current := m.CurrentSnapshot(); current != nil && find(refs, icetable.MainBranch) == nil {
		refs = set(refs, icetable.MainBranch, fmt.Appendf(nil, `{"snapshot-id":%d,"type":"branch"}`, current.SnapshotID))
	}
	return refs, nil
}

// withRef returns a table's refs with a tag.
func withRef(m *metadata.Loaded, text json.RawMessage, tag locator.Tag) (json.RawMessage, error) {
	refs, err := refsOf(m, text)
	if err != nil {
		return nil, err
	}
	object := []member{}
	if old := find(refs, tag.Name); old != nil {
		object, err = members(old)
	}
	if err != nil {
		return nil, err
	}
	object = set(object, "snapshot-id", strconv.AppendInt(nil, tag.Snapshot, 10))
	object = set(object, "type", json.RawMessage(`"tag"`))
	object = set(object, "max-ref-age-ms", strconv.AppendInt(nil, tag.MaxAge.Milliseconds(), 10))
	ref, err := written(object)
	if err != nil {
		return nil, err
	}
	return written(set(refs, tag.Name, ref))
}

// withLog returns the metadata log with an entry for the current metadata file. It does not shorten
// the log to write.metadata.previous-versions-max entries: see cut. After a tag, the next writer
// does that.
func withLog(m *metadata.Loaded, text json.RawMessage) (json.RawMessage, error) {
	var log []json.RawMessage
	if text != nil {
		if err := json.Unmarshal(text, &log); err != nil {
			return nil, err
		}
	}
	file, err := json.Marshal(m.File.Location)
	if err != nil {
		return nil, err
	}
	log = append(log, fmt.Appendf(nil, `{"metadata-file":%s,"timestamp-ms":%d}`, file, m.LastUpdatedMillis()))
	return append(append([]byte{'['}, bytes.Join(rawTexts(log), []byte{','})...), ']'), nil
}

func rawTexts(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, one := range list {
		out[i] = one
	}
	return out
}

// NextLocation returns a location for the next metadata file: in the same folder, with the next
// version in its name, and with the same compression.
func NextLocation(location string) string {
	name := path.Base(location)
	version := 0
	if digits := regexp.MustCompile(`^v?(\d+)[-.]`).FindStringSubmatch(name); digits != nil {
		if n, err := strconv.Atoi(digits[1]); err == nil {
			version = n + 1
		}
	}
	return fmt.Sprintf("%s%05d-%s%s", strings.TrimSuffix(location, name), version, commit.MetadataID(), metafile.Suffix(location))
}
