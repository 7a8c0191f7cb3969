package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/tokens"
)

func tokenCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "Create client tokens", Args: cmdline.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(tokenNewCommand(p))
	return c
}

func tokenNewCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "new --subject NAME", Short: "Create a client token and its line for the server's file of tokens", Args: cmdline.NoArguments,
		Long: "Create a client token and its line for the file that the server's tokens setting names. The\n" +
			"line has only a digest of the token: the token is printed once, on standard output.\n\n" +
			"With --tokens, the line is added to that file, and a running server loads it within\n" +
			"seconds; otherwise, the line is printed on standard error. To revoke a token, delete its line.",
		Example: "  (umask 077; penstock token new --subject trainers --tokens server.tokens > trainers.token)\n" +
			"  penstock token new --subject trainers --expires 720h",
	}
	subject := cmdline.Text(c, "subject", "NAME", "the subject: the client's name in logs, which also limits the share of the server that one client can use")
	file := cmdline.Text(c, "tokens", "FILE", "the file to add the line to; it is created if it does not exist")
	expires := cmdline.Text(c, "expires", "TIME", "how long the token is valid, such as 720h (default: until its line is deleted)")
	asJSON := c.Flags().Bool("json", false, "print the token and the line as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *subject == "" {
			return cmdline.Errorf("%s needs --subject NAME", c.CommandPath())
		}
		var until time.Time
		if *expires != "" {
			lifetime, err := time.ParseDuration(*expires)
			if err != nil || lifetime <= 0 {
				return cmdline.Errorf("--expires: %q is not a positive duration such as 24h or 720h", *expires)
			}
			until = p.clock().Add(lifetime)
		}
		secret, line, err := tokens.New(rand.Reader, *subject, until)
		if err != nil {
			return err
		}
		if *file == "" && !*asJSON {
			p.note("add this line to the file that the server's tokens setting names:\n%s\n", line)
		} else if *file != "" {
			if err := appendLine(*file, line); err != nil {
				return err
			}
		}
		return p.printResult(*asJSON, map[string]string{"subject": *subject, "token": secret, "line": line}, secret+"\n")
	}
	return c
}

// appendLine adds a line to a file, which is created if it does not exist.
func appendLine(path, line string) error {
	const private = 0o600
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, private)
	if err != nil {
		return fault.New(fault.Unavailable, "open the file of tokens: %w", err)
	}
	text, err := io.ReadAll(file)
	if err == nil {
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			line = "\n" + line
		}
		_, err = file.WriteString(line + "\n")
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fault.New(fault.Unavailable, "add to the file of tokens: %w", err)
	}
	return nil
}
