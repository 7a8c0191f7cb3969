package main

// query is a PromQL query of a panel. In expr, $at stands for the labels of the chosen servers, and $of for those labels and
// the chosen datasets.
type query struct {
	expr, legend string
}

// panel is a panel of the dashboard.
type panel struct {
	title, description string
	unit               string // of Grafana
	form               form
	queries            []query
}

// form is how a panel shows values.
type form int

const (
	lines   form = iota // lines over time
	stacked             // areas over time that add up to a total
	number              // the current value
)

// row is a titled group of panels.
type row struct {
	title  string
	panels []panel
}

// rows returns the rows of the dashboard, without the row of all other metrics.
func rows() []row {
	return []row{overview(), streams(), admission(), memory(), storage(), joins(), processes()}
}

func overview() row {
	return row{"Overview", []panel{
		{"Servers that serve", "Servers that accept calls.", "short", number, []query{{`sum(penstock_serving{$at})`, "servers"}}},
		{"Open streams", "Streams that are open now.", "short", number, []query{{`sum(penstock_streams_open{$of})`, "streams"}}},
		{"Rows per second", "Rows that were sent to trainers.", "short", number, []query{{`sum(rate(penstock_rows_sent_total{$of}[$__rate_interval]))`, "rows"}}},
		{"Trainers wait", "The share of their time that trainers wait for batches, as they report it.", "percentunit", number, []query{
			{`sum(rate(penstock_trainer_waited_seconds_total{$of}[$__rate_interval])) / sum(rate(penstock_trainer_seconds_total{$of}[$__rate_interval]))`, "waiting"},
		}},
		{"Memory", "The share of the memory budget that is reserved and cannot be released.", "percentunit", number, []query{
			{`max((penstock_memory_reserved_bytes{$at} - penstock_memory_idle_bytes{$at}) / penstock_memory_budget_bytes{$at})`, "fullest server"},
		}},
		{"Versions", "Servers by version.", "short", number, []query{{`count by (version) (penstock_build_info{$at})`, "{{version}}"}}},
	}}
}

func streams() row {
	return row{"Streams", []panel{
		{"Rows", "Rows per second, by dataset.", "short", lines, []query{{`sum by (dataset) (rate(penstock_rows_sent_total{$of}[$__rate_interval]))`, "{{dataset}}"}}},
		{"Bytes", "Bytes per second over the network and in shared memory.", "Bps", stacked, []query{
			{`sum(rate(penstock_bytes_sent_total{$of}[$__rate_interval]))`, "network"},
			{`sum(rate(penstock_mapped_bytes_total{$of}[$__rate_interval]))`, "shared memory"},
		}},
		{"What streams wait for", "Open streams by what they wait for, on average, as in WAITED FOR of penstock status. A stream that waits for its trainer is not slow.", "short", stacked, []query{
			{`sum by (cause) (rate(penstock_stream_waited_seconds_total{$of}[$__rate_interval]))`, "{{cause}}"},
			{`clamp_min(sum(rate(penstock_stream_open_seconds_total{$of}[$__rate_interval])) - sum(rate(penstock_stream_waited_seconds_total{$of}[$__rate_interval])), 0)`, "work"},
		}},
		{"Longest wait for a batch", "How long the client that has waited longest has waited for the next batch of its stream.", "s", lines, []query{
			{`max by (dataset) (penstock_stream_starved_seconds{$of})`, "{{dataset}}"},
		}},
		{"Time of the server for a batch", "Mean time of a stream for a batch, without its waits for the trainer.", "s", lines, []query{{
			`(sum by (dataset) (rate(penstock_stream_open_seconds_total{$of}[$__rate_interval])) - sum by (dataset) (rate(penstock_stream_waited_seconds_total{$of,cause="trainer"}[$__rate_interval]))) / sum by (dataset) (rate(penstock_batches_sent_total{$of}[$__rate_interval]) > 0)`,
			"{{dataset}}",
		}}},
		{"Trainers wait, by dataset", "The share of their time that trainers wait for batches, as they report it, by dataset.", "percentunit", lines, []query{
			{`sum by (dataset) (rate(penstock_trainer_waited_seconds_total{$of}[$__rate_interval])) / sum by (dataset) (rate(penstock_trainer_seconds_total{$of}[$__rate_interval]) > 0)`, "{{dataset}}"},
		}},
		{"Streams that ended", "Streams that ended per second, by how they ended.", "short", stacked, []query{
			{`sum by (end) (rate(penstock_streams_ended_total{$of}[$__rate_interval]))`, "{{end}}"},
		}},
		{"Rows of jobs", "Rows per second of queries with a job. At most 100 jobs are named.", "short", lines, []query{
			{`topk(20, sum by (exported_job) (rate(penstock_job_rows_sent_total{$at}[$__rate_interval])))`, "{{exported_job}}"},
		}},
	}}
}

func admission() row {
	return row{"Admission", []panel{
		{"Slots", "Streams that have a slot or wait for one, and the setting max_streams.", "short", lines, []query{
			{`sum(penstock_stream_slots_taken{$at})`, "taken"}, {`sum(penstock_streams_waiting{$at})`, "waiting"}, {`sum(penstock_stream_slots{$at})`, "limit"},
		}},
		{"Streams set back", "How often per second streams repeated a step because the memory budget was full. Fewer streams have slots then.", "short", lines, []query{
			{`sum by (dataset) (rate(penstock_streams_set_back_total{$of}[$__rate_interval]))`, "{{dataset}}"},
		}},
		{"Calls", "Calls per second, by method.", "short", lines, []query{{`sum by (method) (rate(penstock_calls_total{$at}[$__rate_interval]))`, "{{method}}"}}},
		{"Calls that failed", "Calls per second that did not end as ok, by outcome. Refused credentials and rights are unauthenticated and forbidden.", "short", stacked, []query{
			{`sum by (end) (rate(penstock_calls_total{$at,end!~"ok|moved"}[$__rate_interval]))`, "{{end}}"},
		}},
		{"Time of calls", "The time in which 99 % of calls ended, without streams.", "s", lines, []query{
			{`histogram_quantile(0.99, sum by (le, method) (rate(penstock_call_seconds_bucket{$at,method!~"DoGet|DoExchange"}[$__rate_interval])))`, "{{method}}"},
		}},
		{"Writes", "Calls that write rows to tables, and calls that wait for their turn.", "short", lines, []query{
			{`sum(penstock_writes_open{$at})`, "open"}, {`sum(penstock_writes_waiting{$at})`, "waiting"},
		}},
	}}
}

func memory() row {
	return row{"Memory and caches", []panel{
		{"Memory by purpose", "Reserved bytes of the memory budget. \"streams\" are build sides, decoded rows and batches.", "bytes", stacked, []query{
			{`sum(penstock_memory_in_flight_bytes{$at})`, "in flight"},
			{`sum(penstock_cache_bytes{$at})`, "cached columns"},
			{`sum(penstock_kept_build_sides_bytes{$at})`, "kept build sides"},
			{`sum(penstock_sharing_window_bytes{$at})`, "shared batches"},
			{`sum(penstock_mapped_memory_bytes{$at})`, "shared memory"},
			{`clamp_min(sum(penstock_memory_reserved_bytes{$at}) - sum(penstock_memory_in_flight_bytes{$at}) - sum(penstock_cache_bytes{$at}) - sum(penstock_kept_build_sides_bytes{$at}) - sum(penstock_sharing_window_bytes{$at}) - sum(penstock_mapped_memory_bytes{$at}), 0)`, "streams"},
		}},
		{"Budget", "Reserved bytes, bytes that cannot be released, and the budget, of the fullest server.", "bytes", lines, []query{
			{`max(penstock_memory_reserved_bytes{$at})`, "reserved"},
			{`max(penstock_memory_reserved_bytes{$at} - penstock_memory_idle_bytes{$at})`, "not idle"},
			{`max(penstock_memory_budget_bytes{$at})`, "budget"},
		}},
		{"Cache hits", "The share of columns that streams found in memory, and the share of lookups that the disk cache answered.", "percentunit", lines, []query{
			{`sum(rate(penstock_cache_hits_total{$at}[$__rate_interval])) / (sum(rate(penstock_cache_hits_total{$at}[$__rate_interval])) + sum(rate(penstock_cache_misses_total{$at}[$__rate_interval])))`, "memory"},
			{`sum(rate(penstock_disk_cache_reads_total{$at,result="hit"}[$__rate_interval])) / sum(rate(penstock_disk_cache_reads_total{$at}[$__rate_interval]))`, "disk"},
		}},
		{"Evictions", "Columns per second that were dropped for others, or for which there was no room.", "short", lines, []query{
			{`sum(rate(penstock_cache_evicted_total{$at}[$__rate_interval]))`, "memory, dropped"},
			{`sum(rate(penstock_cache_passed_total{$at}[$__rate_interval]))`, "memory, no room"},
			{`sum(rate(penstock_disk_cache_evicted_total{$at}[$__rate_interval]))`, "disk, dropped"},
		}},
		{"Disk cache", "Bytes in cache_dir, and the setting cache_disk.", "bytes", lines, []query{
			{`sum(penstock_disk_cache_bytes{$at})`, "used"}, {`sum(penstock_disk_cache_limit_bytes{$at})`, "limit"},
		}},
		{"Writes to the disk cache", "Columns per second, by result.", "short", stacked, []query{{`sum by (result) (rate(penstock_disk_cache_writes_total{$at}[$__rate_interval]))`, "{{result}}"}}},
		{"Spool", "Bytes on local disk of rows that do not fit in memory, and the setting spool_limit (0: unlimited).", "bytes", lines, []query{
			{`sum(penstock_spool_bytes{$at})`, "used"}, {`sum(penstock_spool_limit_bytes{$at})`, "limit"},
		}},
		{"Shared batches", "Batches per second that streams received from a group that reads the same rows.", "short", lines, []query{
			{`sum(rate(penstock_sharing_batches_total{$at}[$__rate_interval]))`, "batches"},
		}},
	}}
}

func storage() row {
	return row{"Storage and catalogs", []panel{
		{"Requests to S3", "Requests per second, by outcome.", "short", stacked, []query{{`sum by (outcome) (rate(penstock_s3_requests_total{$at}[$__rate_interval]))`, "{{outcome}}"}}},
		{"Time of reads from S3", "The times in which 50 % and 99 % of reads ended.", "s", lines, []query{
			{`histogram_quantile(0.5, sum by (le) (rate(penstock_s3_request_seconds_bucket{$at,operation="read"}[$__rate_interval])))`, "50 %"},
			{`histogram_quantile(0.99, sum by (le) (rate(penstock_s3_request_seconds_bucket{$at,operation="read"}[$__rate_interval])))`, "99 %"},
		}},
		{"Bytes from S3", "Bytes per second that were received from S3.", "Bps", lines, []query{{`sum(rate(penstock_s3_read_bytes_total{$at}[$__rate_interval]))`, "bytes"}}},
		{"Calls without an answer", "Opens and reads that storage has not answered and whose callers no longer wait.", "short", lines, []query{
			{`sum(penstock_storage_calls_left_behind{$at})`, "calls"},
		}},
		{"Catalog lookups", "Lookups of tables per second, by catalog and outcome.", "short", stacked, []query{
			{`sum by (catalog, outcome) (rate(penstock_catalog_lookups_total{$at}[$__rate_interval]))`, "{{catalog}} {{outcome}}"},
		}},
		{"Time of catalog lookups", "The time in which 99 % of lookups ended.", "s", lines, []query{
			{`histogram_quantile(0.99, sum by (le, catalog) (rate(penstock_catalog_lookup_seconds_bucket{$at}[$__rate_interval])))`, "{{catalog}}"},
		}},
	}}
}

func joins() row {
	return row{"Joins", []panel{
		{"Match rate", "The share of training rows that had a match, in the last streams.", "percentunit", lines, []query{
			{`avg by (dataset, staging) (penstock_staging_match_rate{$of})`, "{{dataset}} {{staging}}"},
		}},
		{"Rows by result", "Training rows that were joined, in streams that ended, by result.", "short", stacked, []query{
			{`sum by (result) (rate(penstock_staging_rows_total{$of}[$__rate_interval]))`, "{{result}}"},
		}},
		{"Rows with several matches", "Training rows per second that matched several staging rows, in streams that ended.", "short", lines, []query{
			{`sum by (dataset, staging) (rate(penstock_staging_duplicates_total{$of}[$__rate_interval]))`, "{{dataset}} {{staging}}"},
		}},
		{"Bytes read from staging tables", "Stored bytes per second, of streams that ended.", "Bps", lines, []query{
			{`sum by (dataset, staging) (rate(penstock_staging_read_bytes_total{$of}[$__rate_interval]))`, "{{dataset}} {{staging}}"},
		}},
		{"Spills", "Bytes per second of staging rows that did not fit in memory. penstock explain shows which buckets are larger than others.", "Bps", lines, []query{
			{`sum(rate(penstock_spool_written_bytes_total{$at}[$__rate_interval]))`, "written now"},
			{`sum by (dataset, staging) (rate(penstock_staging_spilled_bytes_total{$of}[$__rate_interval]))`, "{{dataset}} {{staging}}"},
		}},
	}}
}

func processes() row {
	return row{"Process", []panel{
		{"CPU", "Cores that are busy, by server.", "short", lines, []query{{`rate(process_cpu_seconds_total{$at}[$__rate_interval])`, "{{instance}}"}}},
		{"Resident memory", "Memory of the process. It may be 1.25 × budget + 256 MiB.", "bytes", lines, []query{
			{`process_resident_memory_bytes{$at}`, "{{instance}}"}, {`max(1.25 * penstock_memory_budget_bytes{$at} + 268435456)`, "expected limit"},
		}},
		{"Uptime", "Time since the process started.", "s", lines, []query{{`time() - process_start_time_seconds{$at}`, "{{instance}}"}}},
		{"Goroutines", "Goroutines, by server.", "short", lines, []query{{`go_goroutines{$at}`, "{{instance}}"}}},
		{"Open files", "File descriptors in use, by server.", "short", lines, []query{{`process_open_fds{$at}`, "{{instance}}"}}},
		{"Files in use", "1 if the config file, and other files that are read again, are in use as they are on disk.", "short", lines, []query{
			{`min(penstock_config_current{$at})`, "config"}, {`min by (files) (penstock_files_current{$at})`, "{{files}}"},
		}},
		{"Certificate", "Time until the certificate of the server expires.", "s", lines, []query{{`min(penstock_certificate_expiry_timestamp_seconds{$at}) - time()`, "certificate"}}},
		{"Keys of the token issuer", "Time since the keys were fetched.", "s", lines, []query{{`time() - min(penstock_issuer_keys_fetched_timestamp_seconds{$at})`, "keys"}}},
	}}
}
