// Command s3gateway serves a folder by S3's protocol, for tests and benchmarks: versitygw,
// in a module of its own, so that the product's stays small.
//
//	s3gateway [-access KEY] [-secret SECRET] FOLDER
//
// Folders in FOLDER, and links to folders, are buckets. It listens on a free port of
// 127.0.0.1, prints its address (http://host:port) once it answers, and ends when its
// standard input does, so that no test leaves one behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

// most bounds connections, and requests at one time.
const most = 4096

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "s3gateway:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	flags := flag.NewFlagSet("s3gateway", flag.ContinueOnError)
	access := flags.String("access", "testaccess", "the access key")
	secret := flags.String("secret", "testsecret12", "the secret key")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("one folder is to be named")
	}
	files, err := posix.New(flags.Arg(0), meta.XattrMeta{}, posix.PosixOpts{BucketLinks: true})
	if err != nil {
		return err
	}
	address, err := free()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
		cancel()
	}()
	own := os.Stdout
	if os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil { // the gateway is talkative
		return err
	}
	go announce(ctx, own, address)
	return embedgw.RunVersityGW(ctx, files, &embedgw.Config{
		RootUserAccess: *access, RootUserSecret: *secret, Ports: []string{address},
		KeepAlive: true, Quiet: true, MaxConnections: most, MaxRequests: most, MultipartMaxParts: 10000,
	})
}

// announce prints the address once the gateway answers there.
func announce(ctx context.Context, to io.Writer, address string) {
	for ctx.Err() == nil {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
			_, _ = fmt.Fprintln(to, "http://"+address)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// free is an unused address.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
