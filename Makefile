# Two commands: `make run` serves, `make test` proves it. Everything they need is installed by npm.
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)
SHELL := /bin/sh
INSTALLED := node_modules/.package-lock.json
SOURCES := $(shell find src -name '*.ts')

.PHONY: run test bench check fix generate build clean

run: build
	@node dist/main.js serve --demo

test: $(INSTALLED)
	@biome check .
	@tsc -p test
	@tap build >/dev/null
	@node test/run.ts

bench: build
	@node bench/main.ts $(ARGS)

check: $(INSTALLED)
	@biome check .
	@tsc -p test

fix: $(INSTALLED)
	@biome check --write .

generate: $(INSTALLED)
	@node test/generate-validators.ts
	@node test/generate-strings.ts

build: dist/main.js

dist/main.js: $(INSTALLED) $(SOURCES) tsconfig.json
	@tsc
	@touch dist/main.js

# npm prints EBADENGINE warnings when it runs on an old Node: harmless, the pinned Node comes with this install
$(INSTALLED): package.json package-lock.json
	npm ci --no-audit --ignore-scripts
	@touch $(INSTALLED)

clean:
	rm -rf dist .tap
