package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/waits"
)

// Places describes the streams of a server, and the calls that write. *flight.Server implements it.
type Places interface {
	// Waiting returns how many streams wait for a slot.
	Waiting() int
	// Slots returns how many streams may be open (0: any number), and how many slots are taken.
	Slots() (limit, taken int)
	// Writes returns how many calls write rows to tables, and how many wait for a place to do so.
	Writes() (open, waiting int)
	// InFlight returns the bytes of batches that clients have not taken.
	InFlight() int64
	// StreamTimes returns how long streams were open and have waited, by dataset.
	StreamTimes() map[string]flight.StreamTimes
}

// Streams adds metrics of open streams, and of the calls that write. It is called once.
func (m *Metrics) Streams(p Places) {
	gauge := func(name, help string, read func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(
		gauge("penstock_streams_waiting", "Streams that wait because max_streams are open.", p.Waiting),
		gauge("penstock_stream_slots", "The setting max_streams; 0 is unlimited.", func() int { limit, _ := p.Slots(); return limit }),
		gauge("penstock_stream_slots_taken", "Slots of streams that are taken.", func() int { _, taken := p.Slots(); return taken }),
		gauge("penstock_writes_open", "Calls of clients that write rows to tables.", func() int { open, _ := p.Writes(); return open }),
		gauge("penstock_writes_waiting", "Calls of clients that wait until they may write rows to tables.", func() int { _, waiting := p.Writes(); return waiting }),
		gauge("penstock_memory_in_flight_bytes", "Bytes of the memory budget for batches that clients have not taken.", func() int { return int(p.InFlight()) }),
		streamTimes{
			read:    p.StreamTimes,
			open:    desc("penstock_stream_open_seconds_total", "How long streams have been open, including open streams and the time before they had a slot.", "dataset"),
			waited:  desc("penstock_stream_waited_seconds_total", "How long streams have waited, including open streams, by cause: trainer, network, slot, memory, stream, deletes or storage.", "dataset", "cause"),
			worked:  desc("penstock_stream_worked_seconds_total", "How long streams have worked while they waited for nothing, including open streams, by kind of work: plan, spill, decode, build, compute, join or send.", "dataset", "work"),
			starved: desc("penstock_stream_starved_seconds", "How long the client that has waited longest has waited for the next batch of its open stream; 0 if no client waits.", "dataset"),
		})
}

// streamTimes reads the times of streams when it is collected.
type streamTimes struct {
	read                          func() map[string]flight.StreamTimes
	open, waited, worked, starved *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (m streamTimes) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.open, m.waited, m.worked, m.starved} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m streamTimes) Collect(to chan<- prometheus.Metric) {
	all := m.read()
	for _, dataset := range slices.Sorted(maps.Keys(all)) {
		of, name := all[dataset], label(dataset)
		to <- prometheus.MustNewConstMetric(m.open, prometheus.CounterValue, of.Open.Seconds(), name)
		to <- prometheus.MustNewConstMetric(m.starved, prometheus.GaugeValue, of.Starved.Seconds(), name)
		for _, c := range waits.Causes() {
			to <- prometheus.MustNewConstMetric(m.waited, prometheus.CounterValue, of.Times.Of(c).Seconds(), name, c.String())
		}
		for _, c := range waits.Works() {
			to <- prometheus.MustNewConstMetric(m.worked, prometheus.CounterValue, of.Times.Of(c).Seconds(), name, c.String())
		}
	}
}
