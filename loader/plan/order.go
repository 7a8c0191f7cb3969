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

// rank is where a split stands in the order: what is compared, first to last.
type rank struct {
	first, second []byte // shuffled: hashes of partition and split, compared after digits
	common        []any  // stored: values of the partition fields that all specs have
	family        int    // stored: of the spec, told apart by its other partition fields
	rest          []any  // stored: the values of those
	digits        []int
	sequence      int64
	location      string
	from          int64
}

// sort puts the splits in order.
//
// Stored goes by partition values, then buckets in digit-reversed order, so
// that the buckets of one residue class stand together for every modulus in
// the chain of the count's factors; then by sequence number and location.
// Where files have several partition specs, the fields that all of them have
// come first, then the specs, then the other fields. Shuffled goes by bucket
// digits first, each digit's values permuted by seed and epoch, then by
// permuted partitions, then by permuted splits: days mix, and a file group is
// read once. The null bucket is the last of its siblings.
func (p *Plan) sort(files []catalog.File) {
	s := sorter{plan: p, specs: p.specOrders(files), permutations: map[[2]int][]int{}}
	ranks := make(map[string]rank, len(p.Splits))
	for _, split := range p.Splits {
		ranks[split.ID] = s.rank(split)
	}
	compare := compareStored
	if p.Rows.Order.IsShuffled() {
		compare = compareShuffled
	}
	slices.SortFunc(p.Splits, func(a, b Split) int { return compare(ranks[a.ID], ranks[b.ID]) })
}

// sorter ranks the splits of one plan.
type sorter struct {
	plan         *Plan
	specs        map[int]specOrder
	permutations map[[2]int][]int // by place and values
}

func (s *sorter) rank(split Split) rank {
	first := split.Files[0]
	r := rank{sequence: first.File.Sequence, location: first.File.Location, from: first.From}
	if split.Bucket.Of > 0 && !split.Bucket.Null() {
		r.digits = bucket.Digits(split.Bucket.ID, split.Bucket.Of)
	} else if split.Bucket.Of > 0 {
		r.digits = []int{split.Bucket.Of} // above every first digit
	}
	if !s.plan.Rows.Order.IsShuffled() {
		spec := s.specs[first.File.Spec]
		r.family, r.common, r.rest = spec.family, pick(split.Partition, spec.common), pick(split.Partition, spec.rest)
		return r
	}
	if !split.Bucket.Null() {
		factors := bucket.Factors(split.Bucket.Of)
		for place, d := range r.digits {
			r.digits[place] = s.permuted(place, factors[place])[d]
		}
	}
	r.first = s.plan.mix("partition", strconv.Itoa(split.Bucket.ID), string(catalog.AppendPartition(nil, split.Partition)))
	r.second = s.plan.mix("split", split.ID)
	return r
}

// permuted returns the permutation of the values of one digit.
func (s *sorter) permuted(place, values int) []int {
	if known, ok := s.permutations[[2]int{place, values}]; ok {
		return known
	}
	hashes := make([][]byte, values)
	order := make([]int, values)
	for i := range order {
		order[i], hashes[i] = i, s.plan.mix("digit", strconv.Itoa(place), strconv.Itoa(i))
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(hashes[a], hashes[b]) })
	permutation := make([]int, values)
	for i, d := range order {
		permutation[d] = i
	}
	s.permutations[[2]int{place, values}] = permutation
	return permutation
}

// shuffleRules is the version of the rules of shuffles. Another one would give
// every seed another order.
const shuffleRules = 1

// mix hashes words with the seed and the epoch: the one source of randomness,
// the same on every machine.
func (p *Plan) mix(words ...string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %q", shuffleRules, p.Rows.Seed, p.Rows.Epoch, words))
	return sum[:8]
}

// ShuffleSeed is what the priorities of a range's rows are drawn by: that of its split,
// or, for requests, of the plan, since a request may lie in several splits.
func (p *Plan) ShuffleSeed(split int) uint64 {
	if p.Rows.Shuffle.ByRequest() {
		return binary.BigEndian.Uint64(p.mix("request"))
	}
	return binary.BigEndian.Uint64(p.mix("row", p.Splits[split].ID))
}

func compareStored(a, b rank) int {
	return cmp.Or(comparePartitions(a.common, b.common), cmp.Compare(a.family, b.family), comparePartitions(a.rest, b.rest),
		slices.Compare(a.digits, b.digits), compareFiles(a, b))
}

func compareShuffled(a, b rank) int {
	return cmp.Or(slices.Compare(a.digits, b.digits), bytes.Compare(a.first, b.first), bytes.Compare(a.second, b.second), compareFiles(a, b))
}

func compareFiles(a, b rank) int {
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.location, b.location), cmp.Compare(a.from, b.from))
}

// deal gives the rows of all splits to n lanes: each gets Rows div n, the
// first Rows mod n one more. In order, a split goes to the lane with the
// fewest rows, the lowest number on ties, and is cut at its quota; the rest
// goes on likewise. Where splits are never cut, there is no quota.
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
	for i, s := range p.Splits {
		for from := int64(0); from < s.Rows; {
			lane := p.shortest(quota)
			l := &p.Lanes[lane]
			to := min(s.Rows, from+quota(lane)-l.Rows)
			l.Ranges = append(l.Ranges, Range{Split: i, From: from, To: to})
			l.Rows += to - from
			from = to
		}
	}
}

// shortest returns the lane with the fewest rows among those below their
// quota; there is one as long as rows are left.
func (p *Plan) shortest(quota func(int) int64) int {
	best := -1
	for i, l := range p.Lanes {
		if l.Rows < quota(i) && (best < 0 || l.Rows < p.Lanes[best].Rows) {
			best = i
		}
	}
	return best
}
