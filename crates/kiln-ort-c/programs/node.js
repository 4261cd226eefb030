// Runs a network of token ids at eight lengths with onnxruntime-node, and meets two errors.
const ort = require('onnxruntime-node');

const LENGTHS = [8, 13, 64, 8, 21, 33, 47, 5];
const REPEATS = 61;

const milliseconds = (since) => Number(process.hrtime.bigint() - since) / 1e6;
const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];
const firstWords = async (call) => {
  try {
    await call();
    return 'no error';
  } catch (error) {
    return error.message.split(/[.:]/)[0];
  }
};

const feedsOf = (session, length) => {
  const feeds = {};
  for (const name of session.inputNames) {
    const data = new BigInt64Array(length);
    if (name === 'input_ids') data.forEach((_, at) => (data[at] = BigInt(((at * 37 + length) % 1000) + 100)));
    if (name === 'attention_mask') data.fill(1n);
    feeds[name] = new ort.Tensor('int64', data, [1, length]);
  }
  return feeds;
};

(async () => {
  let since = process.hrtime.bigint();
  const session = await ort.InferenceSession.create(process.argv[2], { intraOpNumThreads: 2 });
  const load = milliseconds(since);
  const runs = [];
  for (const length of LENGTHS) {
    const { [session.outputNames[0]]: output } = await session.run(feedsOf(session, length));
    const sum = output.data.reduce((sum, value) => sum + Math.abs(value), 0);
    runs.push([output.dims.join('x'), sum.toPrecision(5)]);
  }
  const feeds = feedsOf(session, 16);
  const times = [];
  for (let turn = 0; turn < REPEATS; turn++) {
    since = process.hrtime.bigint();
    await session.run(feeds);
    times.push(milliseconds(since));
  }
  const errors = [
    await firstWords(() => session.run({ bogus: feeds[session.inputNames[0]] })),
    await firstWords(() => ort.InferenceSession.create('/nowhere.onnx')),
  ];
  const names = [session.inputNames, session.outputNames];
  await session.release();
  const measured = { load_ms: load.toFixed(1), request_of_16_ms: median(times).toFixed(3) };
  console.log(JSON.stringify({ names, runs, errors, times: measured }));
})();
