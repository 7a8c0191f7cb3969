package icebergcat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// request returns the revision in the form of a REST catalog's requests. Its conditions are
// those under which the revision was made.
func (m *loaded) request(r revision) (locator.Update, error) {
	out := locator.Update{Ref: r.branch, Snapshot: r.to}
	require := func(format string, args ...any) {
		out.Requirements = append(out.Requirements, fmt.Appendf(nil, format, args...))
	}
	update := func(format string, args ...any) { out.Updates = append(out.Updates, fmt.Appendf(nil, format, args...)) }
	name, err := json.Marshal(cmp.Or(r.branch, commit.Main))
	if err != nil {
		return out, err
	}
	require(`{"type":"assert-table-uuid","uuid":"%s"}`, m.TableUUID())
	from := "null"
	if r.from != 0 {
		from = strconv.FormatInt(r.from, 10)
	}
	if r.branch != "" || r.from != 0 {
		require(`{"type":"assert-ref-snapshot-id","ref":%s,"snapshot-id":%s}`, name, from)
	}
	if s := r.schema; s != nil {
		require(`{"type":"assert-current-schema-id","current-schema-id":%d}`, m.CurrentSchema().ID)
		id := s.id
		if s.text != nil {
			require(`{"type":"assert-last-assigned-field-id","last-assigned-field-id":%d}`, m.LastColumnID())
			update(`{"action":"add-schema","schema":%s,"last-column-id":%d}`, s.text, s.lastColumn)
			id = -1 // the one that was added
		}
		if s.current {
			update(`{"action":"set-current-schema","schema-id":%d}`, id)
		}
		if s.current && s.text == nil {
			out.Schema = &s.id
		}
	}
	if r.snapshot != nil {
		text, err := json.Marshal(r.snapshot)
		if err != nil {
			return out, err
		}
		update(`{"action":"add-snapshot","snapshot":%s}`, text)
	}
	if r.branch == "" {
		return out, nil
	}
	if r.to == 0 {
		update(`{"action":"remove-snapshot-ref","ref-name":%s}`, name)
		return out, nil
	}
	ref := fmt.Appendf(nil, `{"action":"set-snapshot-ref","ref-name":%s,"type":"branch","snapshot-id":%d`, name, r.to)
	out.Updates = append(out.Updates, append(m.retention(ref, r.branch), '}'))
	return out, nil
}

// retention appends the settings of an existing branch, which setting it would remove.
func (m *loaded) retention(to []byte, branch string) []byte {
	for name, ref := range m.Refs() {
		if name != branch {
			continue
		}
		if ref.MaxRefAgeMs != nil {
			to = fmt.Appendf(to, `,"max-ref-age-ms":%d`, *ref.MaxRefAgeMs)
		}
		if ref.MaxSnapshotAgeMs != nil {
			to = fmt.Appendf(to, `,"max-snapshot-age-ms":%d`, *ref.MaxSnapshotAgeMs)
		}
		if ref.MinSnapshotsToKeep != nil {
			to = fmt.Appendf(to, `,"min-snapshots-to-keep":%d`, *ref.MinSnapshotsToKeep)
		}
	}
	return to
}
