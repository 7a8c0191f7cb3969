package scale_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan/scale"
)

func TestParse(t *testing.T) {
	got, err := scale.Parse("trainers=64, step=5ms,rows=4096,row=550B,cpu=600ns,cores=16,memory=64GiB,link=25Gbit/s,server_price=0.8,request_price=0.0004,traffic_price=0.01")
	require.NoError(t, err)
	require.Equal(t, scale.Load{
		Trainers: 64, Step: 5 * time.Millisecond, Rows: 4096, Row: 550, CPU: 600, Cores: 16, Memory: 64 << 30, Link: 25e9 / 8,
		ServerPrice: 0.8, RequestPrice: 0.0004, TrafficPrice: 0.01,
	}, got)
	got, err = scale.Parse("step=1.5s,trainers=1,link=100mbit")
	require.NoError(t, err)
	require.Equal(t, scale.Load{Trainers: 1, Step: 1500 * time.Millisecond, Link: 12.5e6}, got)
}

// Unknown names, missing and repeated parameters and wrong values are refused, all at once.
//
// spec: output-19
func TestParseRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                                  "the parameters are trainers, step, rows, row, cpu, cores, memory, link, server_price, request_price, traffic_price",
		"trainer=2,step=1s":                 `"trainer" is not a parameter`,
		"trainers=2":                        "scale.step: missing; write trainers=64,step=5ms",
		"step=1s":                           "scale.trainers: missing",
		"trainers=2,step=1s,step=2s":        "scale.step: is given twice",
		"trainers=0,step=1s":                `scale.trainers: "0" is not a whole number from 1 to 4096`,
		"trainers=5000,step=1s":             "whole number from 1 to 4096",
		"trainers=2.5,step=1s":              "whole number from 1 to 4096",
		"trainers,step=1s":                  `scale.trainers: "" is not`,
		"trainers=2,step=5":                 `scale.step: "5" is not a time such as 5ms or 1.5s`,
		"trainers=2,step=-5ms":              "is not a time",
		"trainers=2,step=0s":                "is not a time",
		"trainers=2,step=1s,memory=64":      "",
		"trainers=2,step=1s,memory=64G":     `"64G" is not a size such as 64GiB`,
		"trainers=2,step=1s,link=10Gb/s":    `"10Gb/s" is not a speed such as 25Gbit/s or 100Mbit/s`,
		"trainers=2,step=1s,link=gbit":      "is not a speed",
		"trainers=2,step=1s,link=NaNgbit":   "is not a speed",
		"trainers=2,step=1s,server_price=a": "is not a number, of a server for an hour",
		"trainers=2,step=1s,rows=0":         "is not a whole number of rows",
	} {
		_, err := scale.Parse(text)
		if says == "" {
			require.NoError(t, err, text)
			continue
		}
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.ErrorContains(t, err, says, text)
	}
	_, err := scale.Parse("trainer=2,step=5,cores=x")
	require.Len(t, fault.As(err).Faults, 4)
	require.Equal(t, "trainers", fault.As(err).Faults[0].Nearest)
	_, err = scale.Parse(strings.Repeat("a", 1000))
	require.Less(t, len(err.Error()), 400)
}

// A query gets a lane for each trainer, unless it has its own.
func TestStreams(t *testing.T) {
	load := scale.Load{Trainers: 4}
	for lanes, want := range map[int]int{0: 4, 1: 4, 4: 4, 8: 8, 6: 0} {
		q, err := load.Streams(dataset.Query{Rows: dataset.Rows{Lanes: lanes}}.Defaults())
		if want == 0 {
			require.ErrorContains(t, err, "4 trainers do not divide 6 lanes")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, q.Lanes)
		require.Equal(t, dataset.Shard{Index: dataset.AllShards, Of: 4}, q.Shard)
	}
	_, err := load.Streams(dataset.Query{Rows: dataset.Rows{Lanes: 8}, Reading: dataset.Reading{Shard: dataset.Shard{Of: 8}}}.Defaults())
	require.ErrorContains(t, err, "4 trainers cannot read 8 shards")
	for _, part := range []dataset.Reading{{Limit: 5}, {Every: dataset.Every{Of: 2}}, {Cursor: dataset.Cursors{{}}}} {
		_, err := load.Streams(dataset.Query{Rows: dataset.Rows{Lanes: 4}, Reading: part})
		require.ErrorContains(t, err, "whole epochs")
	}
}
