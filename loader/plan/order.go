package plan

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/loader/catalog"
)

// rank is the sort key of a split, in the order of comparison.
type rank struct {
	first, second []byte // shuffled order: hashes of partition and split, compared after digits
	shared        []any  // in the stored order: values of the partition fields that all specs have
	family        int    // in the stored order: the family of the spec; specs of a family have the same other fields
	rest          []any  // in the stored order: the values of the other fields
	digits        []int
	sequence      int64
	location      string
	from          int64
}

// sort sorts the splits.
//
// The stored order is by partition values, then by bucket, then by sequence number and
// File.OrderedAs. Buckets are in digit-reversed order: for every modulus in the chain of factors of
// the bucket count, the buckets of each residue class are adjacent. If files have several partition
// specs, the fields that all specs share are compared first, then the specs, then the other fields.
// The shuffled order is by bucket digits, then by permuted partitions, then by permuted splits. The
// permutation of the values of a digit depends on the seed, the epoch and the preceding digits. The
// shuffled order mixes days, and still reads each file group once. In both orders, the null bucket
// is the last of its siblings.
func (p *Plan) sort(files []catalog.File) {
	s := sorter{plan: p, specs: p.specOrders(files), permutations: map[digit][]int{}}
	stored := make(map[string]rank, len(p.Splits))
	for _, split := range p.Splits {
		stored[split.ID] = s.stored(split)
	}
	byStored := func(a, b Split) int { return compareStored(stored[a.ID], stored[b.ID]) }
	slices.SortFunc(p.Splits, byStored)
	if !p.Rows.Order.IsShuffled() {
		return
	}
	shuffled, position := make(map[string]rank, len(p.Splits)), make(map[string]int, len(p.Splits))
	for i, split := range p.Splits {
		shuffled[split.ID], position[split.ID] = s.shuffled(split, stored[split.ID]), i
	}
	slices.SortFunc(p.Splits, func(a, b Split) int { return compareShuffled(shuffled[a.ID], shuffled[b.ID]) })
	for _, split := range p.Splits {
		p.storedOrder = append(p.storedOrder, position[split.ID])
	}
}

// sorter computes the ranks of one plan's splits.
type sorter struct {
	plan         *Plan
	specs        map[int]specOrder
	permutations map[digit][]int
}

// digit is one digit of the numbers of the buckets in a residue class. The preceding digits
// determine the class, which has the buckets whose numbers are congruent to residue modulo modulus.
// values is the number of values that the digit can have.
type digit struct{ modulus, residue, values int }

// stored returns the rank of a split in the stored order.
func (s *sorter) stored(split Split) rank {
	first := split.Files[0]
	r := rank{sequence: first.File.Sequence, location: first.File.OrderedAs(), from: first.From}
	if split.Bucket.Of > 0 && !split.Bucket.Null() {
		r.digits = bucket.Digits(split.Bucket.ID, split.Bucket.Of)
	} else if split.Bucket.Of > 0 {
		r.digits = []int{split.Bucket.Of} // for the null bucket: greater than the first digit of every bucket
	}
	spec := s.specs[first.File.Spec]
	r.family, r.shared, r.rest = spec.family, pick(split.Partition, spec.shared), pick(split.Partition, spec.rest)
	return r
}

// shuffled returns the rank of a split in the shuffled order, given its rank in the stored order.
func (s *sorter) shuffled(split Split, stored rank) rank {
	r := rank{digits: slices.Clone(stored.digits), sequence: stored.sequence, location: stored.location, from: stored.from}
	if !split.Bucket.Null() {
		factors, modulus := bucket.Factors(split.Bucket.Of), 1
		for place, value := range r.digits {
			residue := split.Bucket.ID % modulus
			r.digits[place] = s.permuted(digit{modulus, residue, factors[place]})[value]
			modulus *= factors[place]
		}
	}
	r.first = s.plan.mix("partition", strconv.Itoa(split.Bucket.ID), string(catalog.AppendPartition(nil, split.Partition)))
	r.second = s.plan.mix("split", split.ID)
	return r
}

// permuted returns the permutation of the values of a digit.
func (s *sorter) permuted(d digit) []int {
	if known, ok := s.permutations[d]; ok {
		return known
	}
	hashes := make([][]byte, d.values)
	order := make([]int, d.values)
	for i := range order {
		order[i], hashes[i] = i, s.plan.mix("digit", strconv.Itoa(d.modulus), strconv.Itoa(d.residue), strconv.Itoa(i))
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(hashes[a], hashes[b]) })
	permutation := make([]int, d.values)
	for i, value := range order {
		permutation[value] = i
	}
	s.permutations[d] = permutation
	return permutation
}

// shuffleRules is the version of the rules of shuffling. Another version produces another order
// from the same seed.
const shuffleRules = 1

// mix hashes words together with the seed and the epoch. It is the only source of randomness, and
// returns the same result on every machine.
func (b *Bound) mix(words ...string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %q", shuffleRules, b.Rows.Seed, b.Rows.Epoch, words))
	return sum[:8]
}

// ShuffleSeed returns the seed for the priorities of a split's rows. When shuffling by request, all
// splits of the plan have the same seed, since a request may span splits.
func (p *Plan) ShuffleSeed(split int) uint64 {
	if p.Rows.Shuffle.ByRequest() {
		return binary.BigEndian.Uint64(p.mix("request"))
	}
	return binary.BigEndian.Uint64(p.mix("row", p.Splits[split].ID))
}

func compareStored(a, b rank) int {
	return cmp.Or(comparePartitions(a.shared, b.shared), cmp.Compare(a.family, b.family), comparePartitions(a.rest, b.rest),
		slices.Compare(a.digits, b.digits), compareFiles(a, b))
}

func compareShuffled(a, b rank) int {
	return cmp.Or(slices.Compare(a.digits, b.digits), bytes.Compare(a.first, b.first), bytes.Compare(a.second, b.second), compareFiles(a, b))
}

func compareFiles(a, b rank) int {
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.location, b.location), cmp.Compare(a.from, b.from))
}

// deal assigns the rows of all splits to n lanes. The quota of a lane is Rows div n rows; the first
// Rows mod n lanes have a quota of one row more. The splits are assigned in their order, each to
// the lane with the fewest rows, or to the first of several such lanes. If a split exceeds the
// lane's quota, it is cut, and the rest of the split is assigned in the same way. If splits must
// not be cut, there is no quota. See dealtTogether for an exception.
func (p *Plan) deal(n int) {
	for _, s := range p.Splits {
		p.StoredRows += s.Rows
	}
	p.Lanes = make([]Lane, n)
	quota := func(lane int) int64 {
		if p.wholeBuckets() {
			return p.StoredRows
		}
		q := p.StoredRows / int64(n)
		if int64(lane) < p.StoredRows%int64(n) {
			q++
		}
		return q
	}
	lane := 0
	for i, s := range p.Splits {
		begin := int64(0)
		for dealt := int64(0); dealt < s.Rows; {
			if dealt > 0 || i == 0 || !p.dealtTogether(p.Splits[i-1], s) || p.Lanes[lane].Rows == quota(lane) {
				lane = shortest(p.Lanes, quota)
			}
			rows := min(s.Rows-dealt, quota(lane)-p.Lanes[lane].Rows)
			if dealt == 0 && rows < s.Rows {
				begin = p.cutAt(s)
			}
			p.Lanes[lane].add(i, (begin+dealt)%s.Rows, rows, s.Rows)
			dealt += rows
		}
	}
}

// cutAt returns the row of a split at which the first lane begins, if several lanes share the
// split. If rows are permuted, the row is random. If it were always the first row, the rows that do
// not fit into a lane would always be the last rows of a bucket. These are the latest rows if the
// table is ordered by time.
func (b *Bound) cutAt(s Split) int64 {
	if b.Rows.ShuffleWindow == 0 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b.mix("cut", s.ID)) % uint64(s.Rows))
}

// add assigns a number of rows of a split to the lane, starting at a row. After the split's last
// row, it continues with the split's first row. The added ranges are in the order of their rows.
func (l *Lane) add(split int, from, rows, of int64) {
	to := from + rows
	if to > of {
		l.Ranges = append(l.Ranges, Range{Split: split, From: 0, To: to - of})
	}
	l.Ranges = append(l.Ranges, Range{Split: split, From: from, To: min(to, of)})
	l.Rows += rows
}

// dealtTogether reports whether a split is assigned to the lane of the preceding split, as far as
// that lane has room. It is if rows are permuted within windows and both splits belong to one
// bucket. As a result, the windows of one lane cover the bucket's whole time range. Splits without
// a bucket are spread over the lanes, because together they cover the time range of the whole
// table; all such splits of a lane form one run.
func (b *Bound) dealtTogether(before, split Split) bool {
	if b.Rows.ShuffleWindow == 0 || b.wholeBuckets() {
		return false
	}
	return split.Bucket.Of > 0 && split.Bucket == before.Bucket
}

// shortest returns the lane with the fewest rows among the lanes below their quota. Such a lane
// exists until all rows are assigned.
func shortest(lanes []Lane, quota func(int) int64) int {
	best := -1
	for i, l := range lanes {
		if l.Rows < quota(i) && (best < 0 || l.Rows < lanes[best].Rows) {
			best = i
		}
	}
	return best
}
