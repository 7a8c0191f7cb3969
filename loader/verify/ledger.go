package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// keyName stands for a key: so much of its SHA-256 that no two keys share it.
type keyName struct{ high, low uint64 }

// spot is a row of a staging table.
type spot struct {
	file int32 // among the files of the table
	row  int64
}

func (s spot) compare(o spot) int {
	return cmp.Or(cmp.Compare(s.file, o.file), cmp.Compare(s.row, o.row))
}

// heldKey is a key of a staging table, or with a rule on times a key at one
// time, and what is known of it.
type heldKey struct {
	name   keyName
	time   int64
	rows   int64
	spots  [2]spot // of its first row, and of the second if there are several
	asked  bool    // a training row matches it
	wanted bool    // a training row has the key; set in the first entry of a key
}

func (k *heldKey) compare(o *heldKey) int {
	return cmp.Or(cmp.Compare(k.name.high, o.name.high), cmp.Compare(k.name.low, o.name.low), cmp.Compare(k.time, o.time))
}

// heldBytes is what one key takes, its part of the ledger's heads included.
const heldBytes = int64(unsafe.Sizeof(heldKey{})) + 8

// ledger holds keys, reserved from the budget. It is filled, closed, and then
// asked.
type ledger struct {
	held    *budget.Reservation
	room    int // keys that held is for
	keys    []heldKey
	heads   []int // where the keys of each beginning of a name start
	shift   int
	merged  int // of keys, those that are in order and all different
	maxKeys int // beyond which the ledger is full; 0: only the budget says so
}

// newLedger makes a ledger with room for some keys; more room is reserved when
// they turn out to be more.
func newLedger(b *budget.Budget, table string, room, most int) (*ledger, error) {
	l := &ledger{room: max(room, 1), maxKeys: most}
	var err error
	if l.held, err = b.Reserve("the keys of staging table "+table, int64(l.room)*heldBytes); err != nil {
		return nil, err
	}
	l.keys = make([]heldKey, 0, l.room)
	return l, nil
}

func (l *ledger) release() {
	l.held.Release()
	l.keys, l.heads = nil, nil
}

// add takes a row's key. Rows come in the order of their spots.
func (l *ledger) add(name keyName, time int64, at spot) error {
	if len(l.keys) == l.room {
		l.merge()
		if len(l.keys) > l.room/2 {
			if err := l.grow(); err != nil {
				return err
			}
		}
	}
	l.keys = append(l.keys, heldKey{name: name, time: time, rows: 1, spots: [2]spot{at}})
	return nil
}

// grow doubles the room. Both copies exist for a moment.
func (l *ledger) grow() error {
	room := 2 * l.room
	if l.maxKeys > 0 && room > l.maxKeys {
		return fault.New(fault.Exhausted, "%d keys are more than are held at once", room)
	}
	if err := l.held.Grow(int64(room) * heldBytes); err != nil {
		return err
	}
	keys := make([]heldKey, len(l.keys), room)
	copy(keys, l.keys)
	l.held.Shrink(int64(l.room) * heldBytes)
	l.keys, l.room = keys, room
	return nil
}

// merge puts the keys in order and makes one of equal ones.
func (l *ledger) merge() {
	if l.merged == len(l.keys) {
		return
	}
	slices.SortFunc(l.keys, func(a, b heldKey) int { return cmp.Or(a.compare(&b), a.spots[0].compare(b.spots[0])) })
	out := l.keys[:0]
	for _, k := range l.keys {
		if last := len(out) - 1; last >= 0 && out[last].compare(&k) == 0 {
			if out[last].rows == 1 {
				out[last].spots[1] = k.spots[0]
			}
			out[last].rows += k.rows
			continue
		}
		out = append(out, k)
	}
	l.keys, l.merged = out, len(out)
}

// close makes the ledger ready to be asked.
func (l *ledger) close() {
	l.merge()
	width := max(bits.Len(uint(len(l.keys)))-1, 0) // so that heads are no more than keys
	l.shift = 64 - width
	l.heads = make([]int, 1<<width+1)
	at := 0
	for i := range 1 << width {
		for at < len(l.keys) && l.head(l.keys[at].name) < i {
			at++
		}
		l.heads[i] = at
	}
	l.heads[1<<width] = len(l.keys)
}

func (l *ledger) head(name keyName) int { return int(name.high >> l.shift) }

// entries returns those of a key, by time; none if it is not there.
func (l *ledger) entries(name keyName) []heldKey {
	head := l.head(name)
	part := l.keys[l.heads[head]:l.heads[head+1]]
	from := 0
	for from < len(part) && cmp.Or(cmp.Compare(part[from].name.high, name.high), cmp.Compare(part[from].name.low, name.low)) < 0 {
		from++
	}
	to := from
	for to < len(part) && part[to].name == name {
		to++
	}
	return part[from:to]
}

// namer makes names of the keys of batches.
type namer struct {
	columns []arrow.Array
	text    []byte
}

// load takes the key columns of a batch.
func (n *namer) load(rows arrow.RecordBatch, at []int) {
	n.columns = n.columns[:0]
	for _, i := range at {
		n.columns = append(n.columns, rows.Column(i))
	}
}

// null says whether a row has a null in its key.
func (n *namer) null(row int) bool {
	return slices.ContainsFunc(n.columns, func(a arrow.Array) bool { return a.IsNull(row) })
}

// name returns the name of a row's key, which has no null. Integers of either
// width have one name.
func (n *namer) name(row int) (keyName, error) {
	n.text = n.text[:0]
	for _, column := range n.columns {
		value, err := appendValue(n.text, column, row)
		if err != nil {
			return keyName{}, err
		}
		n.text = value
	}
	sum := sha256.Sum256(n.text)
	return keyName{high: binary.BigEndian.Uint64(sum[:]), low: binary.BigEndian.Uint64(sum[8:])}, nil
}

// appendValue writes a value so that no two values of one type, beside
// whatever follows them, look alike.
func appendValue(dst []byte, column arrow.Array, row int) ([]byte, error) {
	if number, ok := integerAt(column, row); ok {
		return binary.BigEndian.AppendUint64(dst, uint64(number)), nil
	}
	switch a := column.(type) {
	case *array.Decimal128:
		v := a.Value(row)
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(v.HighBits())), v.LowBits()), nil
	case *array.FixedSizeBinary:
		return append(dst, a.Value(row)...), nil
	case *array.String:
		text := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(text))), text...), nil
	case *array.LargeString:
		text := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(text))), text...), nil
	case *array.Binary:
		bytes := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(bytes))), bytes...), nil
	case *array.LargeBinary:
		bytes := a.Value(row)
		return append(binary.AppendUvarint(dst, uint64(len(bytes))), bytes...), nil
	default:
		return nil, fault.New(fault.Internal, "a key column of type %s", column.DataType())
	}
}

// integerAt returns the value of an integer, a date, a time or a timestamp.
func integerAt(column arrow.Array, row int) (int64, bool) {
	switch a := column.(type) {
	case *array.Int32:
		return int64(a.Value(row)), true
	case *array.Int64:
		return a.Value(row), true
	case *array.Date32:
		return int64(a.Value(row)), true
	case *array.Time64:
		return int64(a.Value(row)), true
	case *array.Timestamp:
		return int64(a.Value(row)), true
	default:
		return 0, false
	}
}
