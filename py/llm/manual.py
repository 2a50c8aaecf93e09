"""What `llm.help()` prints; a module of its own, so that it takes no RAM until it is asked for."""

TEXT = """\
llm: small language models, read in place from flash

  model = llm.load("/rom/model.llm")      a path; in ROMFS it takes no RAM
  model = llm.load(0x60000000)            the address of mapped flash, or (address, size)
  model = llm.load(data)                  bytes or any buffer
  model = llm.load(path, stream=True)     reads the weights for each token: slow, little RAM; also
                                          binary files, block devices. model.stream_stats()
      context=0     positions to make room for (RAM grows with it); 0: as many as trained for
      cache=None    "int8", "f32" or "int4" keys and values
      policy="slide"  when the context is full: forget the oldest; or "error", or "compress"
      ram=0         bytes to make do with; spill=file or buffer: for what finds no room
      sequences=0   texts beside the model's own: model.sequence(), fork(), model.eval_batch()
      cores=0       1 leaves a chip's second core to the radio; 0: all of a chip, one of a desk
      verify=True   check the checksums now, which reads the whole image
  print(model)                            what it is and the RAM it takes
  model.memory()  model.config()          in figures
  model.save_state(file)                  what it has read; model.load_state(file) goes on there
  model.close()                           frees the RAM (so does `with llm.load(...) as model:`)

  gen = llm.Generator(model)
      temperature=0.8  0: always the likeliest token
      top_k=0  top_p=0.9  min_p=0.0       leave out unlikely tokens
      repetition_penalty=1.0              above 1: fewer repetitions
      seed=None     same seed, same text; None: a new one, see gen.seed
      ansi=None     escape sequences: None removes them, "color" keeps colours, "raw" all
      summarize=None  "extract" or a function: past the context, what falls out as a summary
  for piece in gen.generate("Once upon a time"):
      print(piece, end="")
      max_tokens=None  stop at so many
      stop=None        a string, or several, at which the text ends
      echo=False       the prompt first
  gen.stream("Once upon a time", uart)    to any stream, the terminal if none is given; ESC stops
      token_pin=None  changes its level with every token
  llm.chat(model)                         type and it goes on; llm.chat(model, uart)
  gen.stop()                              from a task, thread or interrupt
  gen.stats()                             of the last text: tokens, speed, why it ended

  s = llm.Scheduler(model)                several texts at once, one each of model's sequences=
  job = s.submit(gen, "Once")             job.stop()  job.read()  for piece in job:  s.run()

  gov = llm.Governor("deadline")          sets the clock: llm.Generator(model, governor=gov)
      min_tps=1.1   tokens a second to keep; other policies: "performance", "battery"
  m = llm.metrics(gen)                    m.as_dict()  m.emit(uart)  m.prometheus()

  tok = llm.Tokenizer(model)
  tok.encode("hi")  tok.decode([1, 2])

Ctrl-C stops a text at any time too, the model can be used again at once.
"""
