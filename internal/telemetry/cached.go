package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// CacheSource returns the counts of the caches in which a server keeps data for later streams.
type CacheSource struct {
	Columns func() chunkcache.CacheStats
	Hits    func() map[string]chunkcache.TableHits
	Sides   func() cache.KeptStats
}

// cacheMetrics are the metrics of the caches in which a server keeps data for later streams.
type cacheMetrics struct {
	CacheSource

	bytes, chunks, partial, misses, saved, filled, evicted, passed, givenUp, mixed *prometheus.Desc
	hits, hitBytes, keptSides, sideBytes, sideHits                                 *prometheus.Desc
}

// Cache adds the metrics of the caches in which a server keeps data for later streams: decoded
// columns, and build sides. It is called once.
func (m *Metrics) Cache(read CacheSource) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(cacheMetrics{
		CacheSource: read,
		bytes:       desc("penstock_cache_bytes", "Bytes of decoded columns in memory."),
		chunks:      desc("penstock_cache_columns", "Decoded columns of row groups in memory."),
		partial:     desc("penstock_cache_partial_columns", "Cached columns that hold only part of their rows."),
		misses:      desc("penstock_cache_misses_total", "Columns of row groups, or of parts of them, that streams did not find in memory."),
		saved:       desc("penstock_cache_saved_seconds_total", "Seconds that decoding would have taken without the cache."),
		filled:      desc("penstock_cache_filled_total", "Columns of row groups that became completely cached."),
		evicted:     desc("penstock_cache_evicted_total", "Columns of row groups that were dropped for others."),
		passed:      desc("penstock_cache_passed_total", "Columns of row groups, or of parts of them, for which there was no room."),
		givenUp:     desc("penstock_cache_given_up_bytes_total", "Bytes that were dropped because streams needed the memory."),
		mixed:       desc("penstock_cache_mixed_total", "Columns of row groups that are not written to disk, since some of their rows are codes and some are texts."),
		hits:        desc("penstock_cache_hits_total", "Columns of row groups, or of parts of them, that streams read from memory, by table.", "table"),
		hitBytes:    desc("penstock_cache_hit_bytes_total", "Decoded bytes that streams read from memory, by table.", "table"),
		keptSides:   desc("penstock_kept_build_sides", "Build sides in memory that no stream needs."),
		sideBytes:   desc("penstock_kept_build_sides_bytes", "Bytes of build sides in memory that no stream needs."),
		sideHits:    desc("penstock_kept_build_sides_hits_total", "How often a stream used a build side that was kept."),
	})
}

// Describe implements prometheus.Collector.
func (m cacheMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m cacheMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s, sides := m.Columns(), m.Sides()
	gauge(m.bytes, float64(s.Bytes))
	gauge(m.chunks, float64(s.Units))
	gauge(m.partial, float64(s.Partial))
	count(m.misses, float64(s.Misses))
	count(m.saved, s.Saved.Seconds())
	count(m.filled, float64(s.Filled))
	count(m.evicted, float64(s.Evicted))
	count(m.passed, float64(s.Passed))
	count(m.givenUp, float64(s.GivenUp))
	count(m.mixed, float64(s.Mixed))
	byTable := m.Hits()
	for _, table := range slices.Sorted(maps.Keys(byTable)) {
		count(m.hits, float64(byTable[table].Columns), table)
		count(m.hitBytes, float64(byTable[table].Bytes), table)
	}
	gauge(m.keptSides, float64(sides.Values))
	gauge(m.sideBytes, float64(sides.Bytes))
	count(m.sideHits, float64(sides.Hits))
}
