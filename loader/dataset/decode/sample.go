package decode

import (
	"github.com/penstock/penstock/loader/dataset"
)

// readSample decodes a sample of the training rows.
func readSample(d *decoder, at place) *dataset.Sample {
	out := dataset.Sample{By: dataset.SampleByRequest, Rate: 1}
	object(d, at, &out, []field[dataset.Sample]{
		{name: "hash", read: func(d *decoder, at place, out *dataset.Sample) { out.Hash = readHashRange(d, at) }},
		{name: "by", read: func(d *decoder, at place, out *dataset.Sample) {
			out.By = choice(d, at, []dataset.SampleBy{dataset.SampleByRequest, dataset.SampleByKey})
		}},
		{name: "rate", read: func(d *decoder, at place, out *dataset.Sample) {
			if out.Rate = d.number(at, 0, 1); out.Rate == 0 && d.sound(at.path) {
				d.fail(at.path, "must be above 0; use a filter to exclude rows")
			}
		}},
		{name: "where", read: func(d *decoder, at place, out *dataset.Sample) { out.Where = d.filter(at) }},
	})
	if at.kind == kindObject && d.sound(at.path) {
		checkSample(d, at)
	}
	return &out
}

func checkSample(d *decoder, at place) {
	if !at.has("hash") && !at.has("rate") {
		d.fail(at.path, "has no effect; set hash, rate or both")
		return
	}
	if at.has("by") && !at.has("hash") {
		d.fail(at.pathOf("by"), "has no effect without hash; set a range such as hash: [0, 0.1], or leave by out")
	}
	if at.has("where") && !at.has("rate") {
		d.fail(at.pathOf("where"), "has no effect without rate; set a rate, or use filter to exclude rows")
	}
}

// readHashRange decodes [from, to], a range of hash positions.
func readHashRange(d *decoder, at place) *dataset.HashRange {
	if at.kind != kindList || len(at.items) != 2 {
		d.fail(at.path, "must be two numbers from 0 to 1, such as [0, 0.0625]")
		return nil
	}
	out := &dataset.HashRange{From: d.number(at.item(0), 0, 1), To: d.number(at.item(1), 0, 1)}
	if out.From == out.To && d.sound(at.path) {
		d.fail(at.path, "the range from %v to %v is empty; leave hash out for all rows", out.From, out.To)
	}
	return out
}
