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
	specs := p.specOrders(files)
	order := sorted(len(p.Splits), func(i int) rank { return storedRank(p.Splits[i], specs) }, compareStored)
	p.Splits = picked(p.Splits, order)
	if !p.Rows.Order.IsShuffled() {
		return
	}
	p.storedOrder = p.shuffled(p.draws(), indices(len(p.Splits)))
	p.Splits = picked(p.Splits, p.storedOrder)
}

// shuffled returns splits, given by their indices, in the shuffled order of some draws.
func (p *Plan) shuffled(by draws, splits []int) []int {
	s := sorter{draws: by, permutations: map[digit][]int{}}
	order := sorted(len(splits), func(i int) rank { return s.shuffled(p.Splits[splits[i]]) }, compareShuffled)
	return picked(splits, order)
}

// sorted returns the numbers below n in the order of their ranks.
func sorted(n int, rankOf func(int) rank, compare func(a, b *rank) int) []int {
	ranks := make([]rank, n)
	for i := range ranks {
		ranks[i] = rankOf(i)
	}
	order := indices(n)
	slices.SortFunc(order, func(a, b int) int { return compare(&ranks[a], &ranks[b]) })
	return order
}

// indices returns the numbers below n in ascending order.
func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// picked returns the elements with the given indices.
func picked[T any](from []T, at []int) []T {
	out := make([]T, len(at))
	for i, j := range at {
		out[i] = from[j]
	}
	return out
}

// sorter computes the ranks of splits in a shuffled order.
type sorter struct {
	draws        draws
	permutations map[digit][]int

	// The hash of the partition of the split before: most splits of one file are adjacent.
	bucket    int
	values    []any
	partition []byte
}

// digit is one digit of the numbers of the buckets in a residue class. The preceding digits
// determine the class, which has the buckets whose numbers are congruent to residue modulo modulus.
// values is the number of values that the digit can have.
type digit struct{ modulus, residue, values int }

// placeOf returns the parts of a split's rank that do not depend on specs and draws.
func placeOf(split Split) rank {
	first := split.Files[0]
	r := rank{sequence: first.File.Sequence, location: first.File.OrderedAs(), from: first.From}
	if split.Bucket.Of > 0 && !split.Bucket.Null() {
		r.digits = bucket.Digits(split.Bucket.ID, split.Bucket.Of)
	} else if split.Bucket.Of > 0 {
		r.digits = []int{split.Bucket.Of} // for the null bucket: greater than the first digit of every bucket
	}
	return r
}

// storedRank returns the rank of a split in the stored order.
func storedRank(split Split, specs map[int]specOrder) rank {
	r, spec := placeOf(split), specs[split.Files[0].File.Spec]
	r.family, r.shared, r.rest = spec.family, pick(split.Partition, spec.shared), pick(split.Partition, spec.rest)
	return r
}

// shuffled returns the rank of a split in the shuffled order.
func (s *sorter) shuffled(split Split) rank {
	r := placeOf(split)
	if !split.Bucket.Null() {
		factors, modulus := bucket.Factors(split.Bucket.Of), 1
		for place, value := range r.digits {
			residue := split.Bucket.ID % modulus
			r.digits[place] = s.permuted(digit{modulus, residue, factors[place]})[value]
			modulus *= factors[place]
		}
	}
	if s.partition == nil || s.bucket != split.Bucket.ID || !sameArray(s.values, split.Partition) {
		s.bucket, s.values = split.Bucket.ID, split.Partition
		s.partition = s.draws.mix("partition", strconv.Itoa(s.bucket), string(catalog.AppendPartition(nil, s.values)))
	}
	r.first = s.partition
	r.second = s.draws.mix("split", split.ID)
	return r
}

// sameArray reports whether two lists are the same values in memory, as those of splits of one file
// are. Values cannot be compared with ==, since some are lists of bytes.
func sameArray(a, b []any) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// permuted returns the permutation of the values of a digit.
func (s *sorter) permuted(d digit) []int {
	if known, ok := s.permutations[d]; ok {
		return known
	}
	hashes := make([][]byte, d.values)
	order := make([]int, d.values)
	for i := range order {
		order[i], hashes[i] = i, s.draws.mix("digit", strconv.Itoa(d.modulus), strconv.Itoa(d.residue), strconv.Itoa(i))
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

// draws is the only source of randomness of a plan. Equal draws are equal on every machine.
type draws struct {
	seed, epoch int64
	lane        int // of an order that only this lane has. The order of a plan's splits is that of lane 0.
}

// mix hashes words together with the seed, the epoch and the lane.
func (d draws) mix(words ...string) []byte {
	if d.lane > 0 {
		words = append(words, "lane", strconv.Itoa(d.lane))
	}
	var room [256]byte
	text := fmt.Appendf(room[:0], "%d %d %d [", shuffleRules, d.seed, d.epoch)
	for i, word := range words {
		if i > 0 {
			text = append(text, ' ')
		}
		text = strconv.AppendQuote(text, word)
	}
	sum := sha256.Sum256(append(text, ']'))
	return sum[:8]
}

// draws returns the draws of the query's seed and epoch.
func (b *Bound) draws() draws { return draws{seed: b.Rows.Seed, epoch: b.Rows.Epoch} }

// mix hashes words together with the query's seed and epoch.
func (b *Bound) mix(words ...string) []byte { return b.draws().mix(words...) }

// ShuffleSeed returns the seed for the priorities of a split's rows. When shuffling by request, all
// splits of the plan have the same seed, since a request may span splits.
func (p *Plan) ShuffleSeed(split int) uint64 {
	if p.Rows.Shuffle.ByRequest() {
		return binary.BigEndian.Uint64(p.mix("request"))
	}
	return binary.BigEndian.Uint64(p.mix("row", p.Splits[split].ID))
}

func compareStored(a, b *rank) int {
	return cmp.Or(comparePartitions(a.shared, b.shared), cmp.Compare(a.family, b.family), comparePartitions(a.rest, b.rest),
		slices.Compare(a.digits, b.digits), compareFiles(a, b))
}

func compareShuffled(a, b *rank) int {
	return cmp.Or(slices.Compare(a.digits, b.digits), bytes.Compare(a.first, b.first), bytes.Compare(a.second, b.second), compareFiles(a, b))
}

func compareFiles(a, b *rank) int {
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.location, b.location), cmp.Compare(a.from, b.from))
}
