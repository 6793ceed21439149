#!/bin/sh
# The steps of a release, each by its name: check, kept, package, image, try_package, sums, publish. The workflow runs them one
# by one, and `npm version` runs the step move.
# `sh .github/release.sh dry-run [vX.Y.Z]` does all that publishes nothing, of a copy of HEAD, and says what it leaves out.
set -eu
step=${1:?move, check, kept, package, image, try_package, sums, publish or dry-run}
version=$(node -p "require('./package.json').version")
tag=${2:-${TAG:-v$version}}
out=${RELEASE_DIR:-$PWD/release}
arch=$(node -p "({ x64: 'amd64' })[process.arch] ?? process.arch")

fail() {
  echo "$1" >&2
  exit 1
}

move() { # all that names the version, and the heading of the changelog
  ! grep -qF "## [$version]" .github/CHANGELOG.md || fail "the changelog has \"## [$version]\" already"
  old=$(git show HEAD:package.json | node -p "JSON.parse(require('node:fs').readFileSync(0)).version" | sed 's/\./\\./g')
  for file in README.md Dockerfile .deploy/chart/Chart.yaml .deploy/chart/README.md; do
    sed -i.before "s/$old/$version/g" "$file"
    rm "$file.before"
    git add "$file"
  done
  awk -v heading="## [$version] - $(date -u +%Y-%m-%d)" \
    '{ print } $0 == "## [Unreleased]" { print ""; print heading }' .github/CHANGELOG.md > .github/CHANGELOG.new
  mv .github/CHANGELOG.new .github/CHANGELOG.md
  git add .github/CHANGELOG.md
}

check() { # tag, package, chart and image have one version, and the changelog has it once
  test "$tag" = "v$version" || fail "the tag is $tag, the version $version"
  for line in "version: $version" "appVersion: $version"; do
    grep -qxF "$line" .deploy/chart/Chart.yaml || fail "the chart has no \"$line\""
  done
  grep -qxF "ARG VERSION=$version" Dockerfile || fail 'the Dockerfile has another version'
  twice=$(grep -o '^## \[[^]]*\]' .github/CHANGELOG.md | sort | uniq -d)
  test -z "$twice" || fail "the changelog has this heading twice: $twice"
  mkdir -p "$out"
  awk -v heading="## [$version]" 'index($0, heading) == 1 { on = 1; next } /^## / { on = 0 } on' \
    .github/CHANGELOG.md > "$out/notes.md"
  grep -q . "$out/notes.md" || fail "the changelog has nothing below \"## [$version]\""
}

kept() { # what a release before brought to databases is as it was: an applied file that changed is refused at start
  last=$(git describe --tags --abbrev=0 --match 'v*' --exclude "$tag" 2> /dev/null) || { echo 'no release before'; return; }
  changed=$(git diff --name-status "$last" -- sql/schema sql/migrations | grep -v '^A.*sql/migrations/[0-9]') || return 0
  printf 'changed since %s, and must not; write a migration instead:\n%s\n' "$last" "$changed" >&2
  exit 1
}

package() { # the tarball, what is in it, and the chart
  mkdir -p "$out"
  npm ci --ignore-scripts --workspaces=false
  # provenance holds only for the repository that package.json names
  test -z "${GITHUB_REPOSITORY:-}" ||
    npm pkg set repository.type=git "repository.url=git+$GITHUB_SERVER_URL/$GITHUB_REPOSITORY.git"
  bill=$(mktemp -d)/tollgate # npm names it after the folder
  mkdir "$bill"
  cp package.json package-lock.json .npmrc "$bill"
  # npm lists no workspace whose folder begins with a point, and takes what is not installed for missing
  (cd "$bill" && npm ci --silent --ignore-scripts --omit=dev && npm pkg delete workspaces devDependencies &&
    npm sbom --omit=dev --sbom-format=cyclonedx) > sbom.cdx.json # in the package, and beside it
  cp sbom.cdx.json "$out/tollgate-$version.cdx.json"
  npm pack --pack-destination "$out"
  rm -rf "$bill"
  tar -czf "$out/tollgate-$version-chart.tgz" --transform='s,^chart,tollgate,' -C .deploy chart
}

image() { # of this machine's processor: nothing is emulated
  mkdir -p "$out"
  base=$(sed -n 's/^ARG NODE_IMAGE=//p' Dockerfile | head -n 1)
  docker pull "$base"
  digest=$(docker image inspect --format '{{index .RepoDigests 0}}' "$base" | sed 's/.*@//')
  docker build --build-arg "NODE_IMAGE=$base@$digest" --build-arg "VERSION=$version" \
    --build-arg "REVISION=${GITHUB_SHA:-}" --build-arg "SOURCE=${GITHUB_SERVER_URL:-}/${GITHUB_REPOSITORY:-}" \
    --tag "tollgate:$version" .
  docker run --rm --read-only "tollgate:$version" --version
  docker save "tollgate:$version" | gzip > "$out/tollgate-$version-image-linux-$arch.tar.gz"
}

try_package() { # as somebody installs it, in an empty folder; NODES names more programs, "/opt/node22/bin/node …"
  node .github/try-package.mjs "$out/tollgate-$version.tgz" node ${NODES:-}
}

is_published() {
  test "$(npm view "tollgate@$version" version 2> /dev/null)" = "$version"
}

sums() { # the checksums. Of a version that npm has already, published by hand or by a run that failed later, its tarball is taken
  if is_published; then
    own=$(mktemp -d)
    theirs=$(mktemp -d)
    npm pack --silent "tollgate@$version" --pack-destination "$theirs" > /dev/null
    tar -xzf "$theirs/tollgate-$version.tgz" -C "$theirs"
    tar -xzf "$out/tollgate-$version.tgz" -C "$own"
    # the bill of materials has its time, and package.json the repository of the workflow
    diff -r -x sbom.cdx.json -x package.json "$own/package" "$theirs/package" >&2 || fail "npm has another tollgate $version"
    cp "$theirs/tollgate-$version.tgz" "$out"
    cp "$theirs/package/sbom.cdx.json" "$out/tollgate-$version.cdx.json"
    rm -rf "$own" "$theirs"
    echo "npm has tollgate $version: its tarball is that of the release"
  fi
  (cd "$out" && sha256sum tollgate-* > SHA256SUMS && cat SHA256SUMS)
}

publish() { # what cannot be taken back. Run again, it goes on where it ended
  is_published || npm publish ${GITHUB_ACTIONS:+--provenance} --access public "$out/tollgate-$version.tgz"
  gh release view "$tag" > /dev/null 2>&1 ||
    gh release create "$tag" --verify-tag --title "$tag" --notes-file "$out/notes.md" "$out"/tollgate-* "$out/SHA256SUMS"
}

dry_run() {
  repository=$PWD
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
  git archive HEAD | tar -x -C "$copy"
  rm -f "$out"/tollgate-* # of a run before
  cd "$copy"
  rm -rf node_modules # "npm ci" empties it, also where a link leads
  (check) || echo "a release would end here" >&2
  (cd "$repository" && kept) || echo "a release would end here" >&2
  package
  if command -v docker > /dev/null && docker info > /dev/null 2>&1 && docker pull -q "$(sed -n 's/^ARG NODE_IMAGE=//p' Dockerfile | head -n 1)" > /dev/null 2>&1
  then image; else echo 'left out: the image, for want of docker or of its base'; fi
  try_package
  sums
  npm publish --dry-run --access public "$out/tollgate-$version.tgz" || is_published
  echo "left out: npm publish; gh release create $tag. The files are in $out"
}

case $step in
  move | check | kept | package | image | try_package | sums | publish) $step ;;
  dry-run) dry_run ;;
  *) echo "no such step: $step" >&2; exit 64 ;;
esac
