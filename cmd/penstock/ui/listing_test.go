package ui_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/flight"
)

// many returns a server with streams job-000, job-001 and so on. The later ones wait longer for storage, and have sent fewer rows.
func many(n int) *server {
	s := &server{status: flight.ServerStatus{Version: "1", All: true}}
	for i := range n {
		one := stream(fmt.Sprintf("%032d", i), fmt.Sprintf("job-%03d", i))
		one.Subject, one.Waited.Storage, one.Rows, one.Step, one.Steps = "trainer@example.com", int64(i), int64(1000-i), int64(i), 1000
		s.status.Streams = append(s.status.Streams, one)
	}
	return s
}

// listed returns the jobs in the table of streams, in order.
func listed(body string) (jobs []string) {
	for _, found := range regexp.MustCompile(`<bdi>(job-\d+)</bdi>`).FindAllStringSubmatch(body, -1) {
		jobs = append(jobs, found[1])
	}
	return jobs
}

// The page of many streams is small, and asks the server once. All streams can be reached, in each order.
//
// spec: ui-34
func TestManyStreams(t *testing.T) {
	s := many(500)
	pages := handler(t, s)
	_, body := get(t, pages, "/?part=1")
	require.Len(t, s.calls, 1)
	require.Less(t, len(body), 200<<10)
	require.Less(t, strings.Count(body, "<"), 10_000)
	require.Contains(t, body, "1–100 of 500 streams")
	require.Contains(t, body, "&#34;00000000000000000000000000000499&#34;", "the curves are those of all streams")

	var all []string
	for page := 1; ; page++ {
		_, body := get(t, pages, fmt.Sprintf("/?page=%d", page))
		all = append(all, listed(body)...)
		if !strings.Contains(body, fmt.Sprintf("href=\"/?page=%d\">Later", page+1)) {
			break
		}
	}
	require.Len(t, all, 500)
	require.IsIncreasing(t, all)

	for path, jobs := range map[string][2]string{
		"/?page=9":                   {"job-400", "job-499"},
		"/?page=-1":                  {"job-000", "job-099"},
		"/?page=x&order=none":        {"job-000", "job-099"},
		"/?order=slow":               {"job-499", "job-400"},
		"/?order=waits&page=2":       {"job-399", "job-300"},
		"/?order=done&page=2":        {"job-100", "job-199"},
		"/?find=JOB-4&order=waits":   {"job-499", "job-400"},
		"/?find=job-49&page=2":       {"job-490", "job-499"},
		"/?find=trainer@&order=slow": {"job-499", "job-400"},
	} {
		_, body := get(t, pages, path)
		found := listed(body)
		require.Equal(t, jobs[0], found[0], path)
		require.Equal(t, jobs[1], found[len(found)-1], path)
	}
	_, body = get(t, pages, "/?find=job-&order=slow&page=2")
	require.Contains(t, body, "href=\"/?find=job-&amp;order=slow&amp;page=3\"")
	require.Contains(t, body, "<option value=\"slow\" selected>")
}

// Lists of datasets and tables can be searched, and have as many rows as the list of streams.
//
// spec: ui-35
func TestListsOfNames(t *testing.T) {
	s := &server{more: 250}
	pages := handler(t, s)
	_, body := get(t, pages, "/datasets")
	require.Equal(t, 100, strings.Count(body, "<th scope=\"row\""))
	require.Contains(t, body, "1–100 of 252 datasets")
	_, body = get(t, pages, "/datasets?find=MORE-24&page=1")
	require.Equal(t, 11, strings.Count(body, "<th scope=\"row\""))
	_, body = get(t, pages, "/datasets?find=none")
	require.Contains(t, body, "No name of a dataset contains this text")
	_, body = get(t, pages, "/tables?find=features.a&within=features")
	require.Contains(t, body, "5,000, 3 deletes")
	require.NotContains(t, body, "no &lt;")
}

// An address without a page has the page of a failure, with links to the others.
//
// spec: ui-35
func TestThereIsNoSuchPage(t *testing.T) {
	s := &server{}
	for _, path := range []string{"/none", "/datasets/", "/assets/none"} {
		answer, body := get(t, handler(t, s), path)
		require.Equal(t, http.StatusNotFound, answer.StatusCode)
		require.Contains(t, body, "there is no page at this address")
		require.Contains(t, body, "<a href=\"/tables\"")
	}
	require.Empty(t, s.calls)
}
