package icebergcat

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	icetable "github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/penstock/penstock/loader/catalog/locator"
)

// member is one member of a JSON object, whose value stays as it is written.
type member struct {
	name  string
	value json.RawMessage
}

// members reads a JSON object. One that says a name twice is no metadata.
func members(text []byte) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.Join(errors.New("it is no JSON object"), err)
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

// set puts a value in the place of the one of that name, or behind all others.
func set(object []member, name string, value json.RawMessage) []member {
	for i := range object {
		if object[i].name == name {
			object[i].value = value
			return object
		}
	}
	return append(object, member{name, value})
}

// find returns the value of a name; nil: there is none, or null.
func find(object []member, name string) json.RawMessage {
	for _, m := range object {
		if m.name == name && !bytes.Equal(m.value, []byte("null")) {
			return m.value
		}
	}
	return nil
}

// written is the text of an object.
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

// tagged is the text of a table's metadata with a tag set, as of now. All that it does not
// change, also what this version does not know, stays as it was written: numbers with all
// of their digits, and members in their order.
func (m *loaded) tagged(tag locator.Tag, now time.Time) ([]byte, error) {
	object, err := members(m.text)
	if err != nil {
		return nil, err
	}
	refs, err := m.withRef(find(object, "refs"), tag)
	if err != nil {
		return nil, err
	}
	log, err := m.withLog(find(object, "metadata-log"))
	if err != nil {
		return nil, err
	}
	// Readers refuse a table that is older than what its logs say.
	updated := max(now.UnixMilli(), m.LastUpdatedMillis())
	object = set(object, "last-updated-ms", strconv.AppendInt(nil, updated, 10))
	object = set(object, "metadata-log", log)
	return written(set(object, "refs", refs))
}

// withRef are the refs of a table with a tag. A table of before refs has main where its
// current snapshot is, which is not written; a table that has refs says main with them.
func (m *loaded) withRef(text json.RawMessage, tag locator.Tag) (json.RawMessage, error) {
	var refs []member
	if text != nil {
		var err error
		if refs, err = members(text); err != nil {
			return nil, err
		}
	}
	if current := m.CurrentSnapshot(); current != nil && find(refs, icetable.MainBranch) == nil {
		refs = set(refs, icetable.MainBranch, fmt.Appendf(nil, `{"snapshot-id":%d,"type":"branch"}`, current.SnapshotID))
	}
	object, err := members([]byte("{}"))
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

// withLog is the log of metadata files with the one that is followed now. It is not cut to
// what write.metadata.previous-versions-max says: the next writer does that, and removes
// what it cuts off where the table says so, which nobody would if we had cut it.
func (m *loaded) withLog(text json.RawMessage) (json.RawMessage, error) {
	var log []json.RawMessage
	if text != nil {
		if err := json.Unmarshal(text, &log); err != nil {
			return nil, err
		}
	}
	file, err := json.Marshal(m.location)
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

// following names the metadata file that comes after one: in the same folder, the next
// version as writers count them, packed the same way.
func following(location string) string {
	name := path.Base(location)
	version := 0
	if digits := regexp.MustCompile(`^v?(\d+)[-.]`).FindStringSubmatch(name); digits != nil {
		if n, err := strconv.Atoi(digits[1]); err == nil {
			version = n + 1
		}
	}
	return fmt.Sprintf("%s%05d-%s%s.metadata.json", strings.TrimSuffix(location, name), version, uuid.NewString(),
		map[packing]string{packedNot: "", packedGzip: ".gz", packedZstd: ".zstd"}[packingOf(location)])
}

// pack packs metadata as a file of that name has it.
func pack(location string, text []byte) ([]byte, error) {
	var out bytes.Buffer
	switch packingOf(location) {
	case packedGzip:
		w := gzip.NewWriter(&out)
		_, err := w.Write(text)
		err = errors.Join(err, w.Close())
		return out.Bytes(), err
	case packedZstd:
		w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		_, err = w.Write(text)
		err = errors.Join(err, w.Close())
		return out.Bytes(), err
	case packedNot:
	}
	return text, nil
}
