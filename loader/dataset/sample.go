package dataset

// Canonical returns the sample in the form that cursors contain: compact JSON, with fields in a
// fixed order, fields at their defaults omitted, and Where in its canonical text. It is empty if s
// is nil.
func (s *Sample) Canonical() string {
	if s == nil {
		return ""
	}
	return s.Normal().text()
}

// Normal returns the sample with its defaults set and Where in its canonical text, or nil
// if s is nil.
func (s *Sample) Normal() *Sample {
	if s == nil {
		return nil
	}
	plain := s.defaults()
	plain.Where = plain.Where.canonical()
	return &plain
}

// text returns compact JSON for a sample whose defaults are set. Decoding it returns the
// same sample. It is empty if s is nil.
func (s *Sample) text() string {
	if s == nil {
		return ""
	}
	return string(encode(s.form()))
}

type sampleForm struct {
	Hash  []float64 `json:"hash,omitempty"`
	By    SampleBy  `json:"by,omitempty"`
	Rate  float64   `json:"rate,omitempty"`
	Where string    `json:"where,omitempty"`
}

// form returns the JSON form of a sample whose defaults are set, or nil if s is nil. It
// omits values that decoding restores, except for the rate of a sample that would
// otherwise be empty.
func (s *Sample) form() *sampleForm {
	if s == nil {
		return nil
	}
	out := sampleForm{By: unless(s.By, SampleByRequest), Where: s.Where.String()}
	if s.Hash != nil {
		out.Hash = []float64{s.Hash.From, s.Hash.To}
	}
	if s.Rate != 1 || s.Hash == nil || !s.Where.IsZero() {
		out.Rate = s.Rate
	}
	return &out
}
