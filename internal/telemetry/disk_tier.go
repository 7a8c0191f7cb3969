package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/cache/disk"
)

// diskTierMetrics reads the statistics of a disk tier when it is collected.
type diskTierMetrics struct {
	read                                    func() disk.TierStats
	chunks, bytes, limit, queued            *prometheus.Desc
	reads, writes                           *prometheus.Desc
	readBytes, writtenBytes, saved, evicted *prometheus.Desc
}

// DiskTier adds metrics of decoded columns on local disk. It is called once.
func (m *Metrics) DiskTier(read func() disk.TierStats) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(diskTierMetrics{
		read:   read,
		chunks: desc("penstock_disk_cache_chunks", "Decoded columns of row groups in the folder cache_dir."),
		bytes:  desc("penstock_disk_cache_bytes", "Bytes of files in cache_dir, including incomplete ones, that count toward cache_disk."),
		limit:  desc("penstock_disk_cache_limit_bytes", "The setting cache_disk."),
		queued: desc("penstock_disk_cache_queued_bytes", "Bytes of the memory budget for columns that wait to be written to disk."),
		reads: desc("penstock_disk_cache_reads_total",
			"Lookups of columns on disk, by result: hit, miss, memory (none was free), damaged, failed or canceled.", "result"),
		writes: desc("penstock_disk_cache_writes_total",
			"Columns to write to disk, by result: written, present, dropped (the writer was behind, or the disk did not work), unstored (of a type or size that is not stored) or failed.", "result"),
		readBytes:    desc("penstock_disk_cache_read_bytes_total", "Bytes of columns that were read from disk."),
		writtenBytes: desc("penstock_disk_cache_written_bytes_total", "Bytes of files that were written to cache_dir."),
		saved:        desc("penstock_disk_cache_saved_seconds_total", "Seconds that decoding the columns read from disk would have taken, counted at each read."),
		evicted:      desc("penstock_disk_cache_evicted_total", "Columns that were deleted to make room for others."),
	})
}

// savedUnit is the unit of the costs of chunks, in seconds.
const savedUnit = 1e-6

// Describe implements prometheus.Collector.
func (m diskTierMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m diskTierMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.read()
	gauge := func(d *prometheus.Desc, v int64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(m.chunks, int64(s.Folder.Chunks))
	gauge(m.bytes, s.Folder.Bytes)
	gauge(m.limit, s.Folder.Limit)
	gauge(m.queued, s.Folder.Queued)
	for result, n := range map[string]int64{
		"hit": s.Reads.Hits, "miss": s.Reads.Misses, "memory": s.Reads.NoMemory, "damaged": s.Reads.Damaged, "failed": s.Reads.Failed, "canceled": s.Reads.Canceled,
	} {
		count(m.reads, float64(n), result)
	}
	for result, n := range map[string]int64{
		"written": s.Writes.Chunks, "present": s.Writes.Present, "dropped": s.Writes.Dropped, "unstored": s.Writes.Unstored, "failed": s.Writes.Failed,
	} {
		count(m.writes, float64(n), result)
	}
	count(m.readBytes, float64(s.Reads.HitBytes))
	count(m.writtenBytes, float64(s.Writes.Bytes))
	count(m.saved, float64(s.Reads.Saved)*savedUnit)
	count(m.evicted, float64(s.Writes.Evicted))
}
