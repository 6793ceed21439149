# `make help` lists the targets. npm installs all they need, the right Node included.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
SHELL := /bin/sh
INSTALLED := node_modules/.package-lock.json
SOURCES := $(shell find src -name '*.ts')

.PHONY: run dev test clients bench check fix generate build clean help

run: build ## serve, with a demo company; without DATABASE_URL and UPSTREAM_URL on an embedded Postgres and a demo upstream
	@node dist/main.js serve --demo

dev: $(INSTALLED) ## the same from the sources, started again whenever one changes
	@test -e dist/main.js || $(MAKE) build # for the commands, which are those of the last build
# a Ctrl-C reaches the gateway twice, which ends it at once; the command then stops the database it left
	@trap : INT; node --watch --watch-preserve-output --watch-path=src --watch-path=sql src/main.ts serve --demo; \
	node src/main.ts company list >/dev/null

test: $(if $(FILE)$(ROOM),$(INSTALLED),check) ## check, then run all tests; ROOM=store runs those of a folder, FILE="test/a.test.ts …" these files, CHANGED=1 those that a change reaches, ALL=1 whatever is left out otherwise
	@node test/run.ts $(if $(ROOM),--room=$(ROOM)) $(if $(CHANGED),--changed) $(if $(ALL),--all) $(FILE)

clients: $(INSTALLED) ## try agents and SDKs of others, the latest from npm and PyPI; ARGS="codex mastra …" tries these alone
	@node test/sdk/clients/main.ts $(ARGS)

bench: build ## run the benchmarks; ARGS go to bench/main.ts
	@node bench/main.ts $(ARGS)

check: $(INSTALLED) ## format, lint and types
	@biome check . & tsc -p test --singleThreaded; types=$$?; wait $$! && exit $$types

fix: $(INSTALLED) ## format, and correct what the linter can
	@biome check --write .

generate: $(INSTALLED) ## write the generated validators again
	@node test/generate-validators.ts
	@node test/generate-strings.ts

build: dist/main.js ## compile to dist

dist/main.js: $(INSTALLED) $(SOURCES) tsconfig.json
	@rm -rf dist && tsc && chmod +x dist/main.js
	@ln -sf ../../dist/main.js node_modules/.bin/tollgate # where npx looks first
	@touch dist/main.js

# npm warns that the tools do not support an old Node; they run on the one that this installs
$(INSTALLED): package.json package-lock.json .platform/package.json
	@echo 'Installing Node, Postgres and the development tools below node_modules (about 20 s) ...'
	@npm ci --ignore-scripts >/dev/null
	@touch $(INSTALLED)

clean: ## remove what was built
	rm -rf dist .tap

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | while IFS='	' read -r name text; do \
	echo "$$text" | fold -s -w 65 | sed "s/^/               /; 1s/^ */$$(printf 'make %-9s ' $$name)/; s/ *$$//"; done
