package tensor

import (
	"bytes"
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// passed is a plan with its vocabularies, as a client passes it (docs/spec/blocks.md).
type passed struct {
	Plan         json.RawMessage    `json:"plan"`
	Vocabularies []passedVocabulary `json:"vocabularies"`
}

// passedVocabulary has the values of a vocabulary, of one type, and their codes.
type passedVocabulary struct {
	Strings  []string `json:"strings"`
	Bytes    [][]byte `json:"bytes"`
	Integers []int64  `json:"integers"`
	Codes    []int64  `json:"codes"`
}

// PassedBytes returns upper bounds of the memory that ReadPassed takes for a text: while it reads,
// with all that it allocates, and of its result. Most of the memory is that of vocabularies, whose
// texts have a comma for each value and for each code.
func PassedBytes(text []byte) (reading, result int64) {
	size, commas := int64(len(text)), int64(bytes.Count(text, []byte{','}))
	return 6*size + 152*commas, 2*size + 40*commas
}

// ReadPassed reads a plan with its vocabularies, in the form in which a client passes both. The caller
// reserves PassedBytes first.
func ReadPassed(text []byte) (Plan, error) {
	var given passed
	if err := json.Unmarshal(text, &given); err != nil {
		return Plan{}, fault.New(fault.Invalid, "read a tensor plan: %w", err)
	}
	var vocabularies []*Vocabulary
	for _, v := range given.Vocabularies {
		made, err := v.vocabulary()
		if err != nil {
			return Plan{}, err
		}
		vocabularies = append(vocabularies, made)
	}
	return ReadPlan(given.Plan, vocabularies)
}

// vocabulary makes the vocabulary.
func (v passedVocabulary) vocabulary() (*Vocabulary, error) {
	codes := array.NewInt64Builder(memory.DefaultAllocator)
	defer codes.Release()
	codes.AppendValues(v.Codes, nil)
	var values array.Builder
	switch {
	case v.Strings != nil:
		b := array.NewLargeStringBuilder(memory.DefaultAllocator)
		b.AppendValues(v.Strings, nil)
		values = b
	case v.Bytes != nil:
		b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.LargeBinary)
		b.AppendValues(v.Bytes, nil)
		values = b
	default:
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.AppendValues(v.Integers, nil)
		values = b
	}
	defer values.Release()
	of, with := values.NewArray(), codes.NewInt64Array()
	defer of.Release()
	defer with.Release()
	return NewVocabulary(of, with)
}
