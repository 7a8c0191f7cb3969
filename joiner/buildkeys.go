package joiner

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
)

// indexKeys builds the index and releases the rest of the stream.
func (b *builder) indexKeys(ctx context.Context, s *BuildSide) error {
	if b.spec.Custom != nil {
		return b.custom(ctx, s)
	}
	if err := b.readTimes(s); err != nil {
		return err
	}
	keys, err := b.encodeKeys(ctx)
	if err != nil {
		return err
	}
	repeats := &groupBuilder{rows: b.rows, held: b.held}
	if s.index, err = b.newKeyIndex(ctx, keys, repeats); err != nil {
		return err
	}
	if b.dead != nil {
		b.dead = nil
		b.held.Shrink(b.rows)
	}
	if s.groups, err = repeats.finish(); err != nil {
		return err
	}
	b.rank.times, b.rank.starts = s.times, b.starts
	for i := range b.rank.by {
		b.rank.by[i].parts = b.parts.order[i]
	}
	if s.times != nil || len(b.rank.by) > 0 {
		if err := s.groups.sort(ctx, b.rank.compare); err != nil {
			return err
		}
	}
	if s.doubts, err = b.findDoubts(&s.groups); err != nil {
		return err
	}
	for i := range b.parts.order {
		b.releaseArrays(&b.parts.order[i])
	}
	return nil
}

// newKeyIndex returns sortedKeys if the strategy can use it and the keys are sorted, and a
// hash index otherwise.
func (b *builder) newKeyIndex(ctx context.Context, keys keyVector, repeats *groupBuilder) (keyIndex, error) {
	if b.spec.Strategy.Merges() {
		if from, to, ok := sortedRows(keys, b.dead, int32(b.rows)); ok {
			m := &sortedKeys{keys: keys, from: from, to: to, rows: b.rows, how: b.spec.Strategy, held: b.held}
			return m, m.group(ctx, repeats)
		}
	}
	if err := b.held.Grow(slotsFor(b.rows) * half); err != nil {
		return nil, err
	}
	x := newHashIndex(keys, b.rows)
	return x, x.fill(ctx, b.dead, repeats)
}

// readTimes reads the times of all rows. A row without a time is dead.
func (b *builder) readTimes(s *BuildSide) error {
	if b.time == nil {
		return nil
	}
	scratch := int64(0)
	for p := range b.starts {
		_, more := b.time.encoder.size(b.parts.time[0][p : p+1])
		scratch = max(scratch, more)
	}
	if err := b.held.Grow(b.rows*word + scratch); err != nil {
		return err
	}
	s.times = make([]int64, 0, b.rows)
	for p, from := range b.starts {
		b.time.load(b.parts.time[0][p])
		s.times = append(s.times, b.time.times.values...)
		if err := b.markDead(from, b.time.times.null); err != nil {
			return err
		}
	}
	b.time.encoder = newEncoder(b.time.encoder.types)
	b.held.Shrink(scratch)
	b.releaseArrays(&b.parts.time[0])
	return nil
}

// encodeKeys copies the keys of all rows, and releases the key columns. A row with a
// null in its key is dead.
func (b *builder) encodeKeys(ctx context.Context) (keyVector, error) {
	var keys keyVector
	var kept, scratch int64
	for p := range b.starts {
		k, s := b.encoder.size(b.keyBatch(p))
		kept, scratch = kept+k, max(scratch, s)
	}
	if err := b.held.Grow(kept + word + scratch); err != nil {
		return keys, err
	}
	if b.encoder.integral() {
		keys.ints = make([]int64, 0, b.rows)
	} else {
		keys.arena = make([]byte, 0, kept-b.rows*word)
		keys.ends = append(make([]int64, 0, b.rows+1), 0)
	}
	for p, from := range b.starts {
		if err := ctx.Err(); err != nil {
			return keys, err
		}
		v := b.encoder.encode(b.keyBatch(p))
		keys.append(v)
		if err := b.markDead(from, v.null); err != nil {
			return keys, err
		}
	}
	b.encoder = newEncoder(b.encoder.types)
	b.held.Shrink(scratch)
	for i := range b.parts.key {
		b.releaseArrays(&b.parts.key[i])
	}
	return keys, nil
}

// markDead marks rows that match nothing; from is the first row of their batch.
func (b *builder) markDead(from int64, null []bool) error {
	if null == nil {
		return nil
	}
	if b.dead == nil {
		if err := b.held.Grow(b.rows); err != nil {
			return err
		}
		b.dead = make([]bool, b.rows)
	}
	here := b.dead[from:]
	for i, n := range null {
		here[i] = here[i] || n
	}
	return nil
}

// keyBatch returns the key columns of one batch.
func (b *builder) keyBatch(p int) []arrow.Array {
	arrays := make([]arrow.Array, len(b.parts.key))
	for i, list := range b.parts.key {
		arrays[i] = list[p]
	}
	return arrays
}

// append adds the keys of a batch. There is capacity for them.
func (v *keyVector) append(more keyVector) {
	if more.ends == nil {
		v.ints = append(v.ints, more.ints...)
		return
	}
	from, to := more.ends[0], more.ends[len(more.ends)-1]
	shift := int64(len(v.arena)) - from
	v.arena = append(v.arena, more.arena[from:to]...)
	for _, end := range more.ends[1:] {
		v.ends = append(v.ends, end+shift)
	}
}
