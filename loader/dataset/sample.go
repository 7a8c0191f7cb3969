package dataset

// Canonical returns the sample as cursors contain it: compact JSON, with fields in a
// fixed order, fields at their defaults omitted, and Where in its canonical text. It is
// empty if s is nil.
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

// sample decodes a sample of the training rows.
func (d *decoder) sample(at place) *Sample {
	var out Sample
	object(d, at, &out, []field[Sample]{
		{name: "hash", read: func(d *decoder, at place, out *Sample) { out.Hash = d.hashRange(at) }},
		{name: "by", read: func(d *decoder, at place, out *Sample) {
			out.By = choice(d, at, []SampleBy{SampleByRequest, SampleByKey})
		}},
		{name: "rate", read: func(d *decoder, at place, out *Sample) {
			if out.Rate = d.number(at, 0, 1); out.Rate == 0 && d.sound(at.path) {
				d.fail(at.path, "must be above 0; a filter leaves rows out altogether")
			}
		}},
		{name: "where", read: func(d *decoder, at place, out *Sample) { out.Where = d.filter(at) }},
	})
	if at.kind == kindObject && d.sound(at.path) {
		d.checkSample(at)
	}
	return &out
}

func (d *decoder) checkSample(at place) {
	if !at.has("hash") && !at.has("rate") {
		d.fail(at.path, "says nothing; give it hash, rate or both")
		return
	}
	if at.has("by") && !at.has("hash") {
		d.fail(join(at.path, "by"), "says what is hashed, and there is no hash; give a range such as hash: [0, 0.1], or leave by out")
	}
	if at.has("where") && !at.has("rate") {
		d.fail(join(at.path, "where"), "says which rows the rate is for, and there is none; give a rate, or use filter to leave rows out")
	}
}

// hashRange decodes [from, to], a range of hash positions.
func (d *decoder) hashRange(at place) *HashRange {
	if at.kind != kindList || len(at.items) != 2 {
		d.fail(at.path, "must be two numbers from 0 to 1, such as [0, 0.0625]")
		return nil
	}
	out := &HashRange{From: d.number(at.item(0), 0, 1), To: d.number(at.item(1), 0, 1)}
	if out.From == out.To && d.sound(at.path) {
		d.fail(at.path, "from %v to %v lies no row; leave hash out for all rows", out.From, out.To)
	}
	return out
}
