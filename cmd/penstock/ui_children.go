package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/ui"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// memoryShare is the share of the memory budget of the config file that a command of a page gets by default: 1/memoryShare.
const memoryShare = 2

// childCommands runs commands of this program that change the tables of a config file.
type childCommands struct {
	*children.Group
	config string
	memory int64
}

// newChildCommands returns a group of commands. memory is the value of the flag --child-memory.
func (p process) newChildCommands(file, memory string) (childCommands, error) {
	c, err := p.load(file, nil)
	if err != nil {
		return childCommands{}, err
	}
	out := childCommands{config: file, memory: c.Server.Memory / memoryShare}
	if memory != "" {
		if out.memory, err = fault.ParseSize(memory); err != nil {
			return childCommands{}, cmdline.Errorf("--child-memory %q is not a size, such as 4GiB", memory)
		}
	}
	program, err := os.Executable()
	if err != nil {
		return childCommands{}, fault.New(fault.Unavailable, "find this program: %w", err)
	}
	out.Group = children.New(program)
	return out, nil
}

// Memory implements ui.Promotions and ui.Stages.
func (c childCommands) Memory() int64 { return c.memory }

// start starts a command. Commands that change the same thing have one name.
func (c childCommands) start(name, command string, flags, args []string) error {
	all := slices.Concat([]string{command, "--config", c.config, "--json", "--progress", progressJSON}, flags, []string{"--"}, args)
	return c.Start(children.Command{Name: command + " " + name, Args: all, Env: []string{"PENSTOCK_MEMORY=" + strconv.FormatInt(c.memory, 10)}})
}

// promotions implements ui.Promotions.
type promotions struct {
	childCommands
	process
}

// Start implements ui.Promotions.
func (p promotions) Start(dataset string, entries []string, earlier decode.EarlierPromotion) error {
	var flags []string
	switch earlier {
	case decode.ContinuePromotion:
		flags = append(flags, "--continue")
	case decode.RestartPromotion:
		flags = append(flags, "--restart")
	}
	return p.start(dataset, "promote", flags, append([]string{dataset}, entries...))
}

// State implements ui.Promotions.
func (p promotions) State(dataset string) (children.State, bool) {
	return p.Group.State("promote " + dataset)
}

// Stop implements ui.Promotions.
func (p promotions) Stop(dataset string) bool { return p.Group.Stop("promote " + dataset) }

// SparkSQL implements ui.Promotions.
func (p promotions) SparkSQL(ctx context.Context, dataset string, entries []string) (string, error) {
	var text bytes.Buffer
	printing, none := p.process, ""
	printing.stdout = &text
	err := printing.printPromotion(ctx, p.config, append([]string{dataset}, entries...), sparkPrint{&none, &none})
	return text.String(), err
}

// stages implements ui.Stages.
type stages struct {
	childCommands
	mu     sync.Mutex
	latest map[string]ui.Stage // by table
}

// Start implements ui.Stages.
func (s *stages) Start(one ui.Stage) error {
	var flags []string
	add := func(flag, value string) {
		if value != "" {
			flags = append(flags, flag+"="+value)
		}
	}
	add("--branch", one.Branch)
	add("--key", one.Key)
	add("--like", one.Like)
	add("--buckets", one.Buckets)
	add("--sort", one.Sort)
	for _, field := range one.Partition {
		add("--partition", field)
	}
	add("--sql", one.SQL)
	if one.Replace {
		flags = append(flags, "--mode=replace")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(one.Table, "stage", flags, append([]string{one.Table}, one.Files...)); err != nil {
		return err
	}
	s.latest[one.Table] = one
	return nil
}

// State implements ui.Stages.
func (s *stages) State(table string) (ui.Stage, children.State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := s.Group.State("stage " + table)
	return s.latest[table], at, found
}

// Stop implements ui.Stages.
func (s *stages) Stop(table string) bool { return s.Group.Stop("stage " + table) }
