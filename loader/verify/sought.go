package verify

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/batch"
)

// sampledKeys is the number of keys in a sample.
const sampledKeys = 64

// numForms is the number of forms.
const numForms = 2

// keyForms returns the forms in which spellings of a value are equal, the strictest first.
func keyForms() [numForms]func(dst []byte, value string) []byte {
	return [numForms]func(dst []byte, value string) []byte{appendFolded, appendDigits}
}

// sampledKey is a key in a sample.
type sampledKey struct {
	digest digest
	hashes [numForms]uint64 // of its forms
	values []string         // truncated
	text   string           // in reports
}

// keySample has the keys with the lowest digests of those that were offered, each of them once. So
// it does not depend on the order of rows.
type keySample []sampledKey

// wants reports whether a key belongs to the sample, and returns its position.
func (s keySample) wants(key digest) (at int, wanted bool) {
	if len(s) == sampledKeys && s[sampledKeys-1].digest.compare(key) < 0 {
		return 0, false
	}
	at, known := slices.BinarySearchFunc(s, key, func(k sampledKey, d digest) int { return k.digest.compare(d) })
	return at, !known && at < sampledKeys
}

// offer adds the key of a row, which has no null, if it belongs to the sample.
func (s *keySample) offer(key digest, rows arrow.RecordBatch, columns []int, row int) {
	at, wanted := s.wants(key)
	if !wanted {
		return
	}
	*s = slices.Insert((*s)[:min(len(*s), sampledKeys-1)], at, newSampledKey(key, rows, columns, row))
}

func newSampledKey(key digest, rows arrow.RecordBatch, columns []int, row int) sampledKey {
	k := sampledKey{digest: key, hashes: new(keyHasher).hashes(rows, columns, row)}
	texts := make([]string, len(columns))
	for i, at := range columns {
		value, spelled := keyValue(rows.Column(at), row)
		value = shorten(value)
		k.values, texts[i] = append(k.values, value), value
		if spelled { // quotes make white space visible
			texts[i] = strconv.Quote(value)
		}
	}
	k.text = strings.Join(texts, ", ")
	return k
}

// sampleBytes returns the maximum number of bytes of a sample of keys with a number of columns.
func sampleBytes(columns int) int64 {
	const perKey, perColumn = 128, 16 + 8*maxShown // values, and their quoted text
	return int64(sampledKeys * (perKey + perColumn*columns))
}

// keyHasher computes hashes of the forms of keys.
type keyHasher struct{ buffer []byte }

// hashes returns the hashes of the forms of a row's key, which has no null.
func (h *keyHasher) hashes(rows arrow.RecordBatch, columns []int, row int) (out [numForms]uint64) {
	for i, form := range keyForms() {
		h.buffer = h.buffer[:0]
		for _, at := range columns {
			value, spelled := keyValue(rows.Column(at), row)
			if spelled {
				h.buffer = form(h.buffer, value)
			} else {
				h.buffer = append(h.buffer, value...)
			}
			h.buffer = append(h.buffer, 0)
		}
		out[i] = xxhash.Sum64(h.buffer)
	}
	return out
}

// keyValue returns a value of a key as text, which is valid as long as the column, and whether the
// value may have several spellings. Binary values are the text that they have, or else hexadecimal.
func keyValue(column arrow.Array, row int) (value string, spelled bool) {
	switch a := column.(type) {
	case array.StringLike:
		return a.Value(row), true
	case interface{ Value(row int) []byte }:
		if !isText(column.DataType()) {
			break
		}
		value := a.Value(row)
		if !utf8.Valid(value) || bytes.IndexFunc(value, unicode.IsControl) >= 0 {
			return hex.EncodeToString(value), false
		}
		return string(value), true
	}
	return batch.Text(column, row), false
}

// isText reports whether some values of a type have several spellings: texts, and binary values
// that are no UUIDs.
func isText(t arrow.DataType) bool {
	if fixed, ok := t.(*arrow.FixedSizeBinaryType); ok {
		return fixed.ByteWidth != len(uuid.UUID{})
	}
	return arrow.IsBaseBinary(t.ID())
}

// soughtKey is a training key without a match, and the staging keys that are like it.
type soughtKey struct {
	sampledKey
	equal bool                  // staging has the key itself
	twins [numForms]*sampledKey // the first staging key with the form in another spelling
}

// soughtKeys are training keys without a match, by the hashes of their forms.
type soughtKeys struct {
	keys   []soughtKey // by digest
	byHash [numForms]map[uint64][]int
}

func newSoughtKeys(of keySample) *soughtKeys {
	s := &soughtKeys{keys: make([]soughtKey, len(of))}
	for i := range s.byHash {
		s.byHash[i] = make(map[uint64][]int, len(of))
	}
	for at, k := range of {
		s.keys[at].sampledKey = k
		for i, hash := range k.hashes {
			s.byHash[i][hash] = append(s.byHash[i][hash], at)
		}
	}
	return s
}

// find compares the key of a staging row, which has no null, with the sought keys. sample returns
// the key with its values.
func (s *soughtKeys) find(key digest, hashes [numForms]uint64, sample func() sampledKey) {
	var found *sampledKey
	for form, hash := range hashes {
		for _, at := range s.byHash[form][hash] {
			k := &s.keys[at]
			k.equal = k.equal || k.digest == key
			if k.equal || k.twins[form] != nil {
				continue
			}
			if found == nil {
				found = new(sample())
			}
			if k.respelledAs(found) {
				k.twins[form] = found
			}
		}
	}
}

// respelledAs reports whether each value of a staging key with the same form is another spelling.
func (k *soughtKey) respelledAs(other *sampledKey) bool {
	for i := range k.values {
		if !respelled(k.values[i], other.values[i]) {
			return false
		}
	}
	return true
}

// respelled returns the pairs of a form: the keys that staging has in another spelling only.
func (s *soughtKeys) respelled(form int) (out []soughtKey) {
	for _, k := range s.keys {
		if twin := k.twins[form]; twin != nil && !k.equal && len(differences(k.values, twin.values)) > 0 {
			out = append(out, k)
		}
	}
	return out
}

// equal returns the keys that staging has.
func (s *soughtKeys) equal() []soughtKey {
	return slices.DeleteFunc(slices.Clone(s.keys), func(k soughtKey) bool { return !k.equal })
}

const (
	// leastRespelled is the reciprocal of the least share of sampled keys that have another spelling,
	// and fewRespelled is their least number, unless all have one. Fewer may be chance.
	leastRespelled = 5
	fewRespelled   = 3
)

// compare sets Pairs: of keys that staging has in another spelling, in the strictest form in which
// these are not chance; or else of equal keys; or else of the first keys of both samples.
func (f *Forms) compare(training *soughtKeys, staging keySample) {
	f.Sampled = len(training.keys)
	for form := range numForms {
		found := training.respelled(form)
		if n := len(found); n > 0 && n >= min(fewRespelled, f.Sampled) && n*leastRespelled >= f.Sampled {
			f.pairAlike(found, form)
			return
		}
	}
	equal := training.equal()
	f.Alike = len(equal) > 0
	for _, k := range equal[:min(len(equal), shownKeys)] {
		f.Pairs = append(f.Pairs, Pair{k.text, k.text})
	}
	if f.Alike {
		return
	}
	for i := range min(max(len(training.keys), len(staging)), shownKeys) {
		var p Pair
		if i < len(training.keys) {
			p.Training = training.keys[i].text
		}
		if i < len(staging) {
			p.Staging = staging[i].text
		}
		f.Pairs = append(f.Pairs, p)
	}
}

// pairAlike sets the pairs and differences of keys that staging has in another spelling.
func (f *Forms) pairAlike(found []soughtKey, form int) {
	f.Respelled, f.Alike = len(found), true
	for i, k := range found {
		twin := k.twins[form]
		if i < shownKeys {
			f.Pairs = append(f.Pairs, Pair{k.text, twin.text})
		}
		for _, d := range differences(k.values, twin.values) {
			if !slices.Contains(f.Differences, d) {
				f.Differences = append(f.Differences, d)
			}
		}
	}
}
