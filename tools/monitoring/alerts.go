package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// severity says how soon someone must act.
type severity string

const (
	critical severity = "critical" // at once: training stops, or data is wrong
	warning  severity = "warning"  // within a day
)

// alert is a rule of Prometheus. Its section in docs/alerts.md says what to do.
type alert struct {
	name     string
	expr     string
	hold     string // for how long expr must hold
	why      string // the reason for hold
	severity severity
	summary  string
}

// failures are the outcomes of calls for which the server, storage or a catalog is to blame.
const failures = `end=~"corrupt|internal|unavailable|exhausted"`

// symptoms returns the alerts about what users notice.
func symptoms() []alert {
	return []alert{
		{
			"PenstockDown", `up{job=~".*penstock.*"} == 0 or penstock_serving == 0 or absent(up{job=~".*penstock.*"})`,
			"5m", "a restart takes seconds, a server plans its datasets before it is ready, and streams may finish within the drain time", critical,
			"{{ if $labels.instance }}The server {{ $labels.instance }} does not answer, or is not ready for calls.{{ else }}Prometheus has no server to scrape.{{ end }}",
		},
		{
			"PenstockRestarts", `changes(process_start_time_seconds{job=~".*penstock.*"}[30m]) > 2`,
			"0m", "the range is the time over which restarts are counted", critical,
			"The server {{ $labels.instance }} has restarted {{ $value }} times in 30 minutes.",
		},
		{
			"PenstockCallsFail", `sum by (job) (rate(penstock_calls_total{method=~"DoGet|GetFlightInfo",` + failures + `}[10m])) / sum by (job) (rate(penstock_calls_total{method=~"DoGet|GetFlightInfo"}[10m])) > 0.05`,
			"5m", "clients repeat calls, so short failures are not noticed", critical,
			"{{ $value | humanizePercentage }} of queries and streams fail.",
		},
		{
			"PenstockDataCorrupt", `sum by (job, dataset, end) (increase(penstock_streams_ended_total{end=~"corrupt|internal"}[1h])) > 0`,
			"0m", "no such stream is normal", critical,
			"Streams of {{ $labels.dataset }} ended as {{ $labels.end }}.",
		},
		{
			"PenstockStreamStuck", `max by (job, instance, dataset) (penstock_stream_starved_seconds) > 600`,
			"1m", "the first batch of a large join can take minutes, which the threshold allows for", critical,
			"A client of {{ $labels.dataset }} has waited for a batch for {{ $value | humanizeDuration }}.",
		},
		{
			"PenstockTrainersWait", `sum by (job, dataset) (rate(penstock_trainer_waited_seconds_total[15m])) / sum by (job, dataset) (rate(penstock_trainer_seconds_total[15m])) > 0.2`,
			"30m", "the first epoch fills caches", warning,
			"Trainers of {{ $labels.dataset }} wait for batches for {{ $value | humanizePercentage }} of their time.",
		},
		{
			"PenstockStreamsStarve", `sum by (job, dataset, cause) (rate(penstock_stream_waited_seconds_total{cause=~"slot|memory|storage|deletes|network"}[10m])) / ignoring (cause) group_left () sum by (job, dataset) (rate(penstock_stream_open_seconds_total[10m])) > 0.5`,
			"15m", "streams that begin wait for storage until their first batch", warning,
			"Streams of {{ $labels.dataset }} wait for {{ $labels.cause }} for {{ $value | humanizePercentage }} of their time.",
		},
		{
			"PenstockMatchRateFell", `avg by (job, dataset, staging) (penstock_staging_match_rate) < 0.8 * avg by (job, dataset, staging) (avg_over_time(penstock_staging_match_rate[1d] offset 1h))`,
			"15m", "one stream of other rows, such as an evaluation, does not count", warning,
			"Of the rows of {{ $labels.dataset }}, {{ $value | humanizePercentage }} match {{ $labels.staging }}: fewer than a day ago.",
		},
		{
			"PenstockRefusals", `sum by (job, end) (rate(penstock_calls_total{end=~"unauthenticated|forbidden"}[10m])) / ignoring (end) group_left () sum by (job) (rate(penstock_calls_total[10m])) > 0.2`,
			"15m", "a job with a wrong token gives up within minutes", warning,
			"{{ $value | humanizePercentage }} of calls are refused as {{ $labels.end }}.",
		},
	}
}

// causes returns the alerts about what users may notice next.
func causes() []alert {
	return []alert{
		{
			"PenstockStorageFails", `sum by (job) (rate(penstock_s3_requests_total{outcome=~"throttled|failed|silent|broken|refused"}[5m])) / sum by (job) (rate(penstock_s3_requests_total[5m])) > 0.05`,
			"10m", "requests are repeated, and S3 throttles for a while before it has more capacity", warning,
			"{{ $value | humanizePercentage }} of requests to S3 fail.",
		},
		{
			"PenstockStorageSlow", `histogram_quantile(0.99, sum by (job, le) (rate(penstock_s3_request_seconds_bucket{operation="read"}[10m]))) > 2 or sum by (job) (penstock_storage_calls_left_behind) > 0`,
			"15m", "reads ahead hide slow requests for minutes", warning,
			"Storage is slow or does not answer: the slowest reads take {{ $value }} s, or as many calls have no answer.",
		},
		{
			"PenstockCatalogFails", `sum by (job, catalog) (rate(penstock_catalog_lookups_total{outcome=~"unavailable|corrupt|internal|exhausted"}[5m])) / sum by (job, catalog) (rate(penstock_catalog_lookups_total[5m])) > 0.1`,
			"5m", "lookups are repeated, and open streams need none", warning,
			"{{ $value | humanizePercentage }} of lookups in the catalog {{ $labels.catalog }} fail.",
		},
		{
			"PenstockCatalogSlow", `sum by (job, catalog) (rate(penstock_catalog_lookup_seconds_sum[10m])) / sum by (job, catalog) (rate(penstock_catalog_lookup_seconds_count[10m]) > 0) > 2`,
			"10m", "an idle database answers its first lookup slowly", warning,
			"The catalog {{ $labels.catalog }} takes {{ $value | humanizeDuration }} to look up a table: queries begin late.",
		},
		{
			"PenstockMemoryFull", `sum by (job, instance) (increase(penstock_streams_set_back_total[10m])) > 2 or sum by (job, instance) (rate(penstock_stream_waited_seconds_total{cause="memory"}[5m])) > 0.5 and sum by (job, instance) (penstock_memory_reserved_bytes - penstock_memory_idle_bytes) > 0.9 * sum by (job, instance) (penstock_memory_budget_bytes)`,
			"10m", "streams that begin need more memory than later", warning,
			"The memory budget of {{ $labels.instance }} is full, and streams wait for memory.",
		},
		{
			"PenstockMemoryBeyondBudget", `process_resident_memory_bytes > 1.25 * penstock_memory_budget_bytes + 268435456`,
			"15m", "a peak is returned to the system within seconds", warning,
			"The process {{ $labels.instance }} has {{ $value | humanize1024 }}B of memory, more than its budget explains.",
		},
		{
			"PenstockSpoolFull", `penstock_spool_bytes > 0.9 * penstock_spool_limit_bytes and penstock_spool_limit_bytes > 0`,
			"5m", "a join that spills frees its files when it ends", warning,
			"The spool of {{ $labels.instance }} is nearly full: {{ $value | humanize1024 }}B.",
		},
		{
			"PenstockFilesRefused", `penstock_files_current == 0 or penstock_config_current == 0`,
			"10m", "files that belong together are replaced one after the other", warning,
			"Files on the disk of {{ $labels.instance }} are not in use: {{ if $labels.files }}{{ $labels.files }}{{ else }}the configuration{{ end }}.",
		},
		{
			"PenstockCertificateExpires", `penstock_certificate_expiry_timestamp_seconds - time() < 604800`,
			"1h", "certificates are renewed weeks before they expire", warning,
			"The certificate of {{ $labels.instance }} expires in {{ $value | humanizeDuration }}.",
		},
		{
			"PenstockIssuerKeysOld", `time() - penstock_issuer_keys_fetched_timestamp_seconds > 3600`,
			"10m", "keys are fetched every five minutes, and are used for a day", warning,
			"{{ $labels.instance }} has not fetched the keys of the token issuer for {{ $value | humanizeDuration }}.",
		},
	}
}

// runbook is where the sections of the alerts are, below the root of the repository and of its pages.
const (
	runbook = "docs/alerts.md"
	pages   = "https://github.com/penstock/penstock/blob/main/"
)

// rulesFile returns the alerts as Prometheus reads them.
func rulesFile() []byte {
	var b strings.Builder
	b.WriteString("# Alerts of Penstock. Written by go run ./tools/monitoring; docs/alerts.md says what to do about each.\ngroups:\n")
	for _, group := range []struct {
		name   string
		alerts []alert
	}{{"penstock-symptoms", symptoms()}, {"penstock-causes", causes()}} {
		fmt.Fprintf(&b, "  - name: %s\n    rules:\n", group.name)
		for _, a := range group.alerts {
			fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n        # %s\n        for: %s\n", a.name, quoted(a.expr), a.why, a.hold)
			fmt.Fprintf(&b, "        labels: {severity: %s}\n        annotations:\n          summary: %s\n          runbook_url: %s\n", a.severity, quoted(a.summary), a.section())
		}
	}
	return []byte(b.String())
}

// section returns the address of the alert's section.
func (a alert) section() string { return pages + runbook + "#" + strings.ToLower(a.name) }

// heading matches the heading of an alert's section, and the paragraph that withConditions writes below it.
var heading = regexp.MustCompile(`(?m)^## (\w+)\n\n(?:\*\*Fires:\*\* .*\n\n)?`)

// withConditions returns the runbook with the condition of each alert below the heading of its section.
func withConditions(page []byte) []byte {
	conditions := map[string]string{}
	for _, a := range slices.Concat(symptoms(), causes()) {
		held := "at once"
		if a.hold != "0m" {
			held = "after " + a.hold
		}
		conditions[a.name] = fmt.Sprintf("**Fires:** as %s, %s of `%s`\n\n", a.severity, held, a.expr)
	}
	return heading.ReplaceAllFunc(page, func(found []byte) []byte {
		name := string(heading.FindSubmatch(found)[1])
		return []byte("## " + name + "\n\n" + conditions[name])
	})
}

// quoted returns a text as a YAML string in single quotes.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
