package datafile

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// fixedLengths has the partition fields whose values have a fixed length in manifests, by the kind
// of their type. In a manifest, all types of such a kind have the same name. A table may have only
// one field of each kind, because the library that writes manifests cannot write two different
// types with the same name, and PyIceberg cannot read a name that is used twice.
type fixedLengths map[string]string

// add adds a field. It returns Invalid if there is already a field of the same kind.
func (l fixedLengths) add(table, name string, uuids []int, id int, typed arrow.DataType) error {
	kind := ""
	switch t := typed.(type) {
	case *arrow.Decimal128Type:
		kind = "decimals"
	case *arrow.FixedSizeBinaryType:
		kind = fmt.Sprintf("values of %d bytes", t.ByteWidth)
		if slices.Contains(uuids, id) {
			kind = "uuids"
		}
	default:
		return nil
	}
	if other, twice := l[kind]; twice {
		return fault.New(fault.Invalid, "partition fields %s and %s of table %s both have %s, which not all readers can read", other, name, table, kind).
			In(table, "").WithRemedy("partition by one of them")
	}
	l[kind] = name
	return nil
}

// CheckSpec returns Invalid if no manifest can be written for files of a partition spec of a table,
// because two of its fields have values of a fixed length and of the same kind.
func CheckSpec(state *commit.TableState, spec int) error {
	lengths := fixedLengths{}
	for _, p := range state.Table.Specs[spec] {
		f, ok := state.Table.ByID(p.Source)
		if !ok || p.Transform.Kind == catalog.Bucket {
			continue // the values of buckets are numbers
		}
		if err := lengths.add(state.Table.Name, p.Name, state.UUIDs, f.ID, f.Type); err != nil {
			return err
		}
	}
	return nil
}
