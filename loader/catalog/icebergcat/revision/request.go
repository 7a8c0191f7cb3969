package revision

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// Request returns the revision as a request for a REST catalog. Its conditions require that the
// parts of the metadata on which the revision depends are still as they are in m.
func Request(m *metadata.Loaded, r Revision) (locator.Update, error) {
	out := locator.Update{Ref: r.Branch, Snapshot: r.To}
	require := func(format string, args ...any) {
		out.Requirements = append(out.Requirements, fmt.Appendf(nil, format, args...))
	}
	update := func(format string, args ...any) { out.Updates = append(out.Updates, fmt.Appendf(nil, format, args...)) }
	name, err := json.Marshal(cmp.Or(r.Branch, commit.Main))
	if err != nil {
		return out, err
	}
	require(`{"type":"assert-table-uuid","uuid":"%s"}`, m.TableUUID())
	from := "null"
	if r.From != 0 {
		from = strconv.FormatInt(r.From, 10)
	}
	if r.Branch != "" || r.From != 0 {
		require(`{"type":"assert-ref-snapshot-id","ref":%s,"snapshot-id":%s}`, name, from)
	}
	if s := r.Schema; s != nil {
		require(`{"type":"assert-current-schema-id","current-schema-id":%d}`, m.CurrentSchema().ID)
		id := s.ID
		if s.Text != nil {
			require(`{"type":"assert-last-assigned-field-id","last-assigned-field-id":%d}`, m.LastColumnID())
			update(`{"action":"add-schema","schema":%s,"last-column-id":%d}`, s.Text, s.LastColumn)
			id = -1 // -1 stands for the schema that the same request adds
		}
		if s.Current {
			update(`{"action":"set-current-schema","schema-id":%d}`, id)
		}
		if s.Current && s.Text == nil {
			out.Schema = &s.ID
		}
	}
	if r.Snapshot != nil {
		text, err := json.Marshal(r.Snapshot)
		if err != nil {
			return out, err
		}
		update(`{"action":"add-snapshot","snapshot":%s}`, text)
	}
	if s := r.Statistics; s != nil {
		text, err := json.Marshal(s)
		if err != nil {
			return out, err
		}
		update(`{"action":"set-statistics","snapshot-id":%d,"statistics":%s}`, s.Snapshot, text)
		out.Statistics = s.Path
	}
	if r.Branch == "" {
		return out, nil
	}
	if r.To == 0 {
		update(`{"action":"remove-snapshot-ref","ref-name":%s}`, name)
		return out, nil
	}
	ref := fmt.Appendf(nil, `{"action":"set-snapshot-ref","ref-name":%s,"type":"branch","snapshot-id":%d`, name, r.To)
	out.Updates = append(out.Updates, append(retention(m, ref, r.Branch), '}'))
	return out, nil
}

// retention appends the retention settings of an existing branch to a request that sets the branch.
// Without this, the request would remove the settings.
func retention(m *metadata.Loaded, to []byte, branch string) []byte {
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
