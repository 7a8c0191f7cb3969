package ui_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/webserver"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
)

// Stats describes a dataset or a table, whichever the name is.
func (s *server) Stats(ctx context.Context, request decode.StatsCommand, report func(progress.Message)) (out client.Description, err error) {
	s.measured = append(s.measured, request)
	if s.failure == nil {
		report(progress.Message{Step: "read", Counts: progress.Counts{RowsRead: 1000, OfRowsRead: 5000}})
	}
	if err := s.called(ctx); err != nil {
		return out, err
	}
	if s.waits { // so that the page takes the message before the result
		<-time.After(time.Second)
	}
	columns := []stats.Summary{{Name: hostile, Type: "int64", Rows: 10, Nulls: 5}}
	if strings.Contains(request.Of, ".") {
		out.Table = &statistics.Result{Table: request.Of, Snapshot: 9007199254740993, Rows: 10, Columns: columns}
		return out, nil
	}
	matches := &entries.Matches{Rows: 10, Matched: 4, MatchRate: 0.4}
	out.Dataset = &entries.Result{
		Dataset: request.Of, Training: "ml.train", Snapshot: 9007199254740993, Rows: 10, Columns: columns,
		Entries: []entries.Entry{{Name: hostile, Table: "features.x", Snapshot: 9007199254740995, Matches: matches}},
	}
	return out, nil
}

// The page of statistics begins the measurement that its parameters describe, says how far it is, and has the result with its snapshots and time.
//
// spec: ui-30
func TestStatisticsAreMeasured(t *testing.T) {
	synctest.Test(t, testStatisticsAreMeasured)
}

func testStatisticsAreMeasured(t *testing.T) {
	s := &server{waits: true}
	pages := handler(t, s)
	for path, texts := range map[string][]string{
		"/datasets/homefeed/statistics?against=other&label=clicked&columns=a,+b": {"Reads rows: 1,000 of 5,000", "40%", "50%", ">9007199254740993<", "features.x at snapshot 9007199254740995", " UTC, in 1s"},
		"/tables/features.a/statistics?at=candidate":                             {"Reads rows: 1,000 of 5,000", "50%", ">9007199254740993<", " UTC, in 1s"},
	} {
		answer, body := get(t, pages, path)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		for _, text := range texts {
			require.Contains(t, body, text)
		}
	}
	require.ElementsMatch(t, []decode.StatsCommand{
		{Of: "homefeed", Against: "other", Label: "clicked", Columns: []string{"a", "b"}, Progress: true}, {Of: "features.a", At: "candidate", Progress: true},
	}, s.measured)
	_, body := get(t, pages, "/tables/homefeed/statistics")
	require.Contains(t, body, "the statistics are those of the dataset")
	for _, path := range []string{"/datasets/homefeed", "/tables/features.a"} {
		_, body := get(t, pages, path)
		require.Contains(t, body, "<form action=\""+path+"/statistics\">")
	}
}

// A refusal of a server has its status.
//
// spec: ui-4
func TestStatisticsThatTheViewerMayNotSee(t *testing.T) {
	answer, body := get(t, handler(t, &server{failure: fault.New(fault.Forbidden, "no").WithRemedy("ask for a rule")}), "/datasets/homefeed/statistics")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Contains(t, body, "ask for a rule")
}

// A measurement ends at its deadline.
//
// spec: ui-31
func TestStatisticsHaveADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		answer, body := get(t, handler(t, &server{hangs: true}), "/datasets/homefeed/statistics")
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Contains(t, body, "the measurement was not ready after 10 min")
		require.Equal(t, 10*time.Minute, time.Since(begin))
	})
}

// A viewer who begins a measurement ends the one before. Those of other viewers go on.
//
// spec: ui-31
func TestAViewerMeasuresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{hangs: true}
		pages := handler(t, s)
		ctx, leave := context.WithCancel(t.Context())
		measure := func(viewer string) (body chan string) {
			body = make(chan string, 1)
			go func() {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/datasets/homefeed/statistics", nil)
				r.Header.Set("Authorization", viewer)
				w := httptest.NewRecorder()
				pages.ServeHTTP(w, r)
				body <- w.Body.String()
			}()
			synctest.Wait()
			return body
		}
		first, other := measure("Bearer a"), measure("Bearer b")
		second := measure("Bearer a")
		require.Contains(t, <-first, "another page of this viewer measures now")
		require.Empty(t, other)
		require.Empty(t, second)
		leave() // the calls end with their pages
		<-other
		<-second
	})
}

// A page is sent as far as the measurement is, also if the measurement takes longer than browsers may take to receive other pages.
//
// spec: ui-30
func TestStatisticsAreSentInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := &pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		s := &server{hangs: true}
		site := webserver.New(handler(t, s), 8, slog.New(slog.DiscardHandler))
		go func() { _ = site.Serve(at) }()
		here, there := net.Pipe()
		at.conns <- there
		_, err := io.WriteString(here, "GET /datasets/homefeed/statistics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(here), nil)
		require.NoError(t, err)
		begin := time.Now()
		part := make([]byte, 64<<10)
		n, err := answer.Body.Read(part)
		require.NoError(t, err)
		require.Contains(t, string(part[:n]), "The measurement begins")
		require.Less(t, time.Since(begin), time.Minute)
		rest, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Contains(t, string(rest), "was not ready after 10 min")
		require.NoError(t, site.Close())
	})
}

// pipes is a listener on pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }
