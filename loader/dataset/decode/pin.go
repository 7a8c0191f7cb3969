package decode

import (
	"strings"

	"github.com/penstock/penstock/loader/dataset"
)

// readPin decodes a pin. Staging is never nil, even for a dataset without staging tables.
func readPin(d *decoder, at place) dataset.Pin {
	out := dataset.Pin{Staging: map[string]dataset.TablePin{}}
	object(d, at, &out, must([]field[dataset.Pin]{
		{name: "training", read: func(d *decoder, at place, p *dataset.Pin) { p.Training = readTablePin(d, at) }},
		{name: "staging", read: func(d *decoder, at place, p *dataset.Pin) { readStagingPins(d, at, p.Staging, readTablePin) }},
	}))
	return out
}

// readPartialPin decodes the pin of a query, which may omit tables, and all fields of a table
// except the snapshot.
func readPartialPin(d *decoder, at place) dataset.Pin {
	out := dataset.Pin{Staging: map[string]dataset.TablePin{}}
	object(d, at, &out, []field[dataset.Pin]{
		{name: "training", read: func(d *decoder, at place, p *dataset.Pin) { p.Training = readPartialTablePin(d, at) }},
		{name: "staging", read: func(d *decoder, at place, p *dataset.Pin) { readStagingPins(d, at, p.Staging, readPartialTablePin) }},
	})
	return out
}

func readPartialTablePin(d *decoder, at place) dataset.TablePin {
	if at.has("uuid") || at.has("schema") || at.has("mapping") {
		return readTablePin(d, at)
	}
	var out dataset.TablePin
	object(d, at, &out, append(must([]field[dataset.TablePin]{
		{name: "snapshot", read: func(d *decoder, at place, p *dataset.TablePin) { p.Snapshot = d.snapshotID(at, 1) }},
	}), field[dataset.TablePin]{name: "uuid"}, field[dataset.TablePin]{name: "schema"}, field[dataset.TablePin]{name: "mapping"}))
	return out
}

func readStagingPins(d *decoder, at place, into map[string]dataset.TablePin, read func(*decoder, place) dataset.TablePin) {
	if at.kind != kindObject || len(at.members) > dataset.MaxStaging {
		d.fail(at.path, "must be an object that maps the names of at most %d tables to pins", dataset.MaxStaging)
		return
	}
	for _, m := range at.members {
		p := at.member(m)
		if m.name == "" || len(m.name) > maxName || strings.ContainsFunc(m.name, isControl) {
			d.fail(p.path, "a staging table's name has 1 to %d bytes and no control characters", maxName)
		}
		into[m.name] = read(d, p)
	}
}

func readTablePin(d *decoder, at place) dataset.TablePin {
	var out dataset.TablePin
	object(d, at, &out, append(must([]field[dataset.TablePin]{
		{name: "uuid", read: func(d *decoder, at place, p *dataset.TablePin) { p.UUID = d.short(at, maxID) }},
		{name: "snapshot", read: func(d *decoder, at place, p *dataset.TablePin) {
			p.Snapshot = d.snapshotID(at, dataset.NoSnapshot)
		}},
		{name: "schema", read: func(d *decoder, at place, p *dataset.TablePin) { p.Schema = int(d.whole(at, 0, maxInt32)) }},
	}), field[dataset.TablePin]{name: "mapping", read: func(d *decoder, at place, p *dataset.TablePin) { p.Mapping = d.short(at, maxID) }}))
	return out
}
