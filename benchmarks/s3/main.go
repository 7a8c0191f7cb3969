// Command s3 measures the cost of a remote object store: T (benchmarks/README.md) is read from an S3
// gateway on this machine, through a proxy, with and without a delay added to every request. Both
// take turns, in one process, and each turn is cold: it shares no cached footer, manifest or plan with
// the previous one.
//
//	go run ./benchmarks/s3 [-full .bench/full] [-rounds 5] [-delay 20ms] [-least 0.8]
//	go run ./benchmarks/s3 -serve FOLDER [-delay 20ms]
//
// The catalog's database is local; metadata, manifests and data come from the gateway. A turn is a
// complete joined stream of one lane, from planning to the last row; gateway and proxy use the same
// machine. The command prints medians, and exits with 1 if the stream with the delay is slower than
// the given share of the speed without it.
//
// With -serve it only starts a gateway over a folder and a proxy with the delay, prints the proxy's address, and
// ends when its standard input ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) (err error) {
	flags := flag.NewFlagSet("s3", flag.ContinueOnError)
	full := flags.String("full", ".bench/full", "where T is: make costs makes it")
	rounds := flags.Int("rounds", 5, "turns of each")
	delay := flags.Duration("delay", 20*time.Millisecond, "the delay added to every request")
	least := flags.Float64("least", 0.8, "the minimum share of the speed without the delay")
	folder := flags.String("serve", "", "a folder to serve with the delay, whose folders are buckets")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *folder != "" {
		return serve(ctx, *folder, *delay)
	}
	home, err := filepath.Abs(*full)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "s3")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if err := os.Symlink(home, filepath.Join(root, bucket)); err != nil {
		return err
	}
	proxy, stop, err := proxied(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	delays := []time.Duration{0, *delay}
	turns := make([][]turn, len(delays))
	for round := range *rounds + 1 {
		for i, d := range delays {
			proxy.Delay(d)
			proxy.Reset()
			one, err := read(ctx, home, proxy)
			if err != nil {
				return err
			}
			if round > 0 { // the first one warms the file cache
				turns[i] = append(turns[i], one)
			}
		}
	}
	return report(delays, turns, *least)
}

// proxied starts a gateway over a folder, and a proxy before it. stop ends both.
func proxied(ctx context.Context, folder string) (proxy *gatewaytest.Proxy, stop func() error, err error) {
	gateway, err := gatewaytest.Start(ctx, folder)
	if err != nil {
		return nil, nil, err
	}
	if proxy, err = gatewaytest.NewProxy(gateway.URL); err != nil {
		return nil, nil, errors.Join(err, gateway.Close())
	}
	return proxy, func() error { return errors.Join(proxy.Close(), gateway.Close()) }, nil
}

// serve serves a folder with a delay, until standard input ends.
func serve(ctx context.Context, folder string, delay time.Duration) (err error) {
	proxy, stop, err := proxied(ctx, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	proxy.Delay(delay)
	fmt.Println(proxy.URL)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// turn is one complete read.
type turn struct {
	rows     int64
	bytes    int64 // of bodies
	requests int
	took     time.Duration
}

// report prints medians, and returns an error if the delay costs too much.
func report(delays []time.Duration, turns [][]turn, least float64) error {
	medians := make([]turn, len(turns))
	fmt.Println("| delay | rows | requests | MiB read | seconds | of the speed without |")
	fmt.Println("|---|---:|---:|---:|---:|---:|")
	speed := 0.0
	for i, all := range turns {
		slices.SortFunc(all, func(a, b turn) int { return int(a.took - b.took) })
		m := all[len(all)/2]
		medians[i] = m
		speed = medians[0].took.Seconds() / m.took.Seconds()
		fmt.Printf("| %s | %d | %d | %d | %.2f | %.2f |\n", delays[i], m.rows, m.requests, m.bytes>>20, m.took.Seconds(), speed)
	}
	if speed < least {
		return fmt.Errorf("%.2f of the speed without the delay, but the minimum is %.2f", speed, least)
	}
	return nil
}
