package deletes

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// FilePositions are the positions of the rows of one data file that position deletes or a deletion
// vector delete. Only one goroutine uses them; it also releases them.
type FilePositions struct {
	set  *bitmap
	held *budget.Reservation
}

// Positions returns the positions of a data file's rows that position deletes and deletion vectors
// delete. Equality deletes, which do not name rows by their positions, are left out.
func (p *Pool) Positions(ctx context.Context, t *catalog.Table, f catalog.File) (*FilePositions, error) {
	f.Deletes.Equality = nil
	rows, err := p.Open(ctx, t, f)
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	bytes := int64(bytesOfBitmap)
	for _, set := range rows.positions {
		bytes += set.bytes()
	}
	held, err := p.options.Budget.ReserveFor(ctx, "deleted rows of "+f.Location, bytes)
	if err != nil {
		return nil, err
	}
	out := &FilePositions{set: &bitmap{}, held: held}
	for _, set := range rows.positions {
		out.set.union(set)
	}
	return out, nil
}

// Named returns the locations of the data files that a file of position deletes names, in order.
// The file of position deletes may name data files that its table no longer has.
func (p *Pool) Named(ctx context.Context, t *catalog.Table, d *catalog.DeleteFile) ([]string, error) {
	if d.Kind != catalog.PositionDeletes {
		return nil, fault.New(fault.Internal, "%s is %s, which names no data files", d.Location, d.Kind)
	}
	u := unit{file: d}
	need := p.shared.Need(u.key(t))
	defer need.Close()
	pin := need.Pin()
	defer pin.Release()
	got, err := p.get(ctx, t, need, u)
	if err != nil {
		return nil, err
	}
	defer got.Release()
	var out []string
	for path := range got.positions {
		out = append(out, path)
	}
	slices.Sort(out)
	return out, nil
}

// Count returns the number of positions.
func (f *FilePositions) Count() int64 { return f.set.count() }

// Each calls do with the positions in ascending order, one slice of them at a time, until do
// returns an error. It fills the slice run again for each call.
func (f *FilePositions) Each(run []int64, do func(run []int64) error) error {
	run = run[:0]
	for _, p := range f.set.parts {
		for it := p.lower.Iterator(); it.HasNext(); {
			run = append(run, int64(p.upper)<<halfShift+int64(it.Next()))
			if len(run) < cap(run) {
				continue
			}
			if err := do(run); err != nil {
				return err
			}
			run = run[:0]
		}
	}
	if len(run) == 0 {
		return nil
	}
	return do(run)
}

// Vector returns the positions as the blob of a deletion vector.
func (f *FilePositions) Vector() ([]byte, error) {
	body := binary.LittleEndian.AppendUint64([]byte(vectorMagic), uint64(len(f.set.parts)))
	for _, p := range f.set.parts {
		p.lower.RunOptimize()
		stored, err := p.lower.ToBytes()
		if err != nil {
			return nil, fault.New(fault.Internal, "a deletion vector cannot be encoded: %w", err)
		}
		body = append(binary.LittleEndian.AppendUint32(body, p.upper), stored...)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(len(body))) //nolint:gosec // a file has less rows than that
	out = append(out, body...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body)), nil
}

// Bytes returns an upper bound of the size of the blob that Vector returns.
func (f *FilePositions) Bytes() int64 { return f.set.bytes() + int64(vectorFrame) }

// Release releases the memory. It is idempotent.
func (f *FilePositions) Release() {
	f.set = nil
	f.held.Release()
}
