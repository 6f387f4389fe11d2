#!/usr/bin/env bash
# Downloads the archive of a release, verifies its checksum and its attestation, unpacks it, and adds it to the PATH.
# Reads VIK_VERSION, VIK_SHA256 and GH_TOKEN. VIK_DOWNLOADS replaces the address of the releases, for a mirror.
set -euo pipefail

fail() {
  # Inputs may contain line breaks, which would end the command.
  local message=${1//'%'/'%25'}
  message=${message//$'\r'/'%0D'}
  printf '::error title=setup-vik::%s\n' "${message//$'\n'/'%0A'}"
  exit 1
}

repository=vik-sh/vik
version=${VIK_VERSION#v}
downloads=${VIK_DOWNLOADS:-https://github.com/$repository/releases/download}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] ||
  fail "version: expected a version such as 0.2.0, found \`$version\`"
[[ -z $VIK_SHA256 || $VIK_SHA256 =~ ^[0-9a-f]{64}$ ]] ||
  fail "sha256: expected 64 hexadecimal digits in lower case"

case $(uname -s)-$(uname -m) in
  Linux-x86_64) target=x86_64-unknown-linux-musl ;;
  Linux-aarch64) target=aarch64-unknown-linux-musl ;;
  *) fail "there is no package for $(uname -s) on $(uname -m): use a Linux runner, or build Vik from source" ;;
esac

archive=vik-$version-$target.tar.gz
folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/vik-XXXXXX")
fetch() {
  curl --fail --silent --show-error --location --retry 3 --output "$folder/$1" "$downloads/v$version/$1" ||
    fail "cannot download $1 of version $version"
}

fetch "$archive"
expected=$VIK_SHA256
if [[ -z $expected ]]; then
  fetch SHA256SUMS
  expected=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$folder/SHA256SUMS")
  [[ -n $expected ]] || fail "SHA256SUMS of version $version does not list $archive"
fi
printf '%s  %s\n' "$expected" "$folder/$archive" | sha256sum --check --strict --status ||
  fail "the checksum of $archive is not $expected"

# A release that someone replaces has other checksums too; only the release workflow can attest it.
if command -v gh >/dev/null; then
  gh attestation verify "$folder/$archive" --repo "$repository" \
    --signer-workflow "$repository/.github/workflows/release.yml" ||
    fail "$archive has no valid attestation of the release workflow of $repository"
elif [[ -z $VIK_SHA256 ]]; then
  fail "\`gh\` is not installed, so the attestation cannot be verified: install it, or set the input \`sha256\`"
fi

tar --extract --gzip --file "$folder/$archive" --directory "$folder" --strip-components 1 --no-same-owner
"$folder/bin/vik" --version
printf '%s\n' "$folder/bin" >>"$GITHUB_PATH"
printf 'version=%s\n' "$version" >>"$GITHUB_OUTPUT"
