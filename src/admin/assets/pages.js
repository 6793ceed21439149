// Every page works without this script.

// over plain http browsers allow no access to the clipboard, except from this machine
const buttons = navigator.clipboard ? document.querySelectorAll('button[data-copy]') : [];
for (const button of buttons) {
  button.hidden = false;
  const original = button.innerHTML;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = button.dataset.copied;
    setTimeout(() => {
      button.innerHTML = original;
    }, 2000);
  });
}

// where a navigation scrolls, the present page is in sight
for (const link of document.querySelectorAll('.scrolling [aria-current]')) {
  const row = link.closest('.scrolling');
  const [all, its] = [row.getBoundingClientRect(), link.getBoundingClientRect()];
  row.scrollLeft += its.left - all.left - (all.width - its.width) / 2;
}

const find = document.getElementById('find');
if (find) {
  document.addEventListener('keydown', (event) => {
    const isTyping = event.target.closest('input, textarea, select, [contenteditable]') !== null;
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    find.focus();
    find.select();
  });
}

// What is chosen from a list is asked at once; who chooses by the keyboard, which passes other values on its way, and who
// types days presses the button.
for (const form of document.querySelectorAll('form[data-sends]')) {
  const button = form.querySelector('button');
  let hasKeys = false;
  button.hidden = form.querySelector('[type="date"]') === null;
  addEventListener('pageshow', () => form.reset()); // Back shows what is asked, not what was chosen then
  form.addEventListener('pointerdown', () => {
    hasKeys = false;
  });
  form.addEventListener('keydown', () => {
    hasKeys = true;
  });
  form.addEventListener('change', ({ target }) => {
    if (hasKeys) button.hidden = false;
    else if (target.matches('select')) form.requestSubmit();
  });
}

for (const chart of document.querySelectorAll('svg.chart')) {
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  chart.parentElement.append(tip);
  for (const bar of chart.querySelectorAll('.bar')) {
    const title = bar.querySelector('title');
    if (title === null) continue;
    const text = title.textContent;
    title.remove(); // or the browser would show it as well
    const show = (clientX, clientY) => {
      tip.textContent = text;
      tip.hidden = false;
      const frame = chart.parentElement.getBoundingClientRect();
      const x = Math.min(clientX - frame.left + 14, frame.width - tip.offsetWidth);
      tip.style.left = `${Math.max(0, x)}px`;
      tip.style.top = `${clientY - frame.top + 14}px`;
    };
    const hide = () => {
      tip.hidden = true;
    };
    bar.addEventListener('pointerenter', (event) => show(event.clientX, event.clientY));
    bar.addEventListener('pointermove', (event) => show(event.clientX, event.clientY));
    bar.addEventListener('pointerleave', hide);
    bar.addEventListener('focus', () => {
      const { left, top } = bar.getBoundingClientRect();
      show(left, top);
    });
    bar.addEventListener('blur', hide);
  }
}

for (const form of document.querySelectorAll('form[data-stream]')) {
  const result = document.getElementById('result');
  const [answer, error, figures] = ['answer', 'error', 'figures'].map((name) =>
    result.querySelector(`[data-${name}]`),
  );
  const link = result.querySelector('[data-request]');
  const [send, stop] = [form.querySelector('button.primary'), form.querySelector('[data-stop]')];

  /** Shows the answer as it comes. @returns the id of the request; null when the answer is no stream */
  async function show(signal) {
    const body = new URLSearchParams(new FormData(form));
    const response = await fetch(form.dataset.stream, { method: 'POST', body, signal });
    if (response.headers.get('content-type') !== 'application/x-ndjson') return null;
    let [rest, request] = ['', ''];
    const reader = response.body.getReader(); // Safari cannot iterate over a stream
    const decoder = new TextDecoder();
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const lines = (rest + decoder.decode(read.value, { stream: true })).split('\n');
        rest = lines.pop();
        for (const piece of lines.map((line) => JSON.parse(line))) {
          request = piece.request ?? request;
          answer.append(piece.text ?? '');
          error.append(piece.error ?? '');
        }
      }
    } catch (reason) {
      if (!signal.aborted) throw reason;
      error.append(form.dataset.stopped);
    }
    return request;
  }

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (send.ariaDisabled === 'true') return; // a button that is disabled would lose the keyboard
    const stopped = new AbortController();
    stop.onclick = () => stopped.abort();
    for (const part of [answer, error, figures]) part.textContent = '';
    send.ariaDisabled = 'true';
    stop.hidden = false;
    result.hidden = false;
    link.hidden = true;
    try {
      const request = await show(stopped.signal);
      if (request === null) return form.submit(); // the page says what is wrong
      link.href = link.href.replace(/[^/]*$/, request);
      link.hidden = request === '';
      const refused =
        answer.textContent === '' && error.textContent !== '' && !stopped.signal.aborted;
      if (refused) figures.textContent = `${form.dataset.nothing} x-request-id ${request}`;
      else if (request !== '') {
        const booked = await fetch(`${form.action}/${request}`);
        figures.textContent = booked.ok ? await booked.text() : `x-request-id ${request}`;
      }
    } catch (reason) {
      error.append(
        stopped.signal.aborted ? form.dataset.stopped : `${form.dataset.broken}${reason.message}`,
      );
    } finally {
      send.ariaDisabled = 'false';
      if (document.activeElement === stop) send.focus();
      stop.hidden = true;
    }
  });
}

// A list that is watched is read again every two seconds while its page is in front, for a quarter of an hour:
// reading it keeps the session alive.
const live = document.querySelector('[data-live]');
if (live) {
  const button = document.querySelector('[data-pause]'); // not where a short part of a page is watched
  let left = 0;
  const resume = (reads) => {
    left = reads;
    if (button) button.textContent = left > 0 ? button.dataset.pause : button.dataset.follow;
  };
  if (button) {
    button.hidden = false;
    button.addEventListener('click', () => resume(left > 0 ? 0 : 450));
  }
  const refresh = async () => {
    // what somebody is about to follow or copy stays where it is
    const selection = getSelection();
    const isMarked = selection.toString() !== '' && selection.containsNode(live, true);
    if (left === 0 || document.hidden || live.contains(document.activeElement) || isMarked) return;
    const answer = await fetch(live.dataset.live || location.href);
    if (!answer.ok || answer.redirected) return resume(0);
    const fresh = new DOMParser()
      .parseFromString(await answer.text(), 'text/html')
      .getElementById(live.id);
    if (left === 0 || !fresh) return;
    // screen readers say what is new, and nothing again
    if (fresh.innerHTML !== live.innerHTML) live.replaceChildren(...fresh.childNodes);
    if ('live' in fresh.dataset) return resume(left - 1);
    resume(0);
    // its step of a list is done, which a badge and the line above the list say too
    const told = live.closest('li')?.querySelector('.badge');
    for (const part of [told, told?.closest('section').querySelector('p[data-done]')])
      if (part) part.textContent = part.dataset.done;
    if (told) told.className = 'badge good';
  };
  const next = () =>
    setTimeout(
      () =>
        refresh()
          .catch(() => {})
          .finally(next),
      2000,
    );
  resume(450);
  next();
}

// The rates of a price: rows are added and removed, what is typed is checked as saving it would be, and Back finds it again.
for (const box of document.querySelectorAll('[data-rates]')) {
  const form = box.closest('form');
  const rows = box.querySelector('tbody');
  const add = box.querySelector('[data-add]');
  const key = box.dataset.rates;
  const inputs = () => [...rows.querySelectorAll('input')];
  const startOf = ({ name }) => /rate-\d+-/.exec(name)[0];
  const blank = rows.rows[rows.rows.length - 1].cloneNode(true);
  const blankStart = startOf(blank.querySelector('input'));
  let asked = 0;

  const say = (input, message) => {
    const id = `${input.id}-wrong`;
    document.getElementById(id)?.remove();
    input.removeAttribute('aria-invalid');
    input.removeAttribute('aria-describedby');
    if (message === undefined) return;
    const text = document.createElement('p');
    [text.className, text.id, text.textContent] = ['wrong', id, message];
    input.after(text);
    input.setAttribute('aria-invalid', 'true');
    input.setAttribute('aria-describedby', id);
  };
  const check = async () => {
    asked += 1;
    const mine = asked;
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(key, { method: 'POST', body });
    if (mine !== asked || !answer.headers.get('content-type')?.includes('json')) return; // saving it says what is wrong
    const wrong = await answer.json();
    for (const input of inputs()) say(input, wrong[input.name]);
  };
  const show = () => {
    [...rows.rows].forEach((row, at) => {
      row.querySelector('[data-remove]').hidden = false;
      for (const input of row.querySelectorAll('input'))
        input.ariaLabel = input.ariaLabel.replace(/\d+$/, at + 1);
    });
  };
  const keep = () => {
    const typed = inputs().map(({ name, value }) => [name, value]);
    history.replaceState({ ...history.state, [key]: typed }, '');
  };
  const addRow = (start) => {
    const row = blank.cloneNode(true);
    for (const input of row.querySelectorAll('input')) {
      for (const name of ['id', 'name']) input[name] = input[name].replace(blankStart, start);
      input.value = '';
    }
    rows.append(row);
    return row;
  };

  const isBack = performance.getEntriesByType('navigation')[0]?.type === 'back_forward';
  const kept = new Map(isBack ? history.state?.[key] : []);
  if (kept.size > 0) {
    const starts = new Set([...kept.keys()].map((name) => startOf({ name })));
    for (const row of [...rows.rows])
      if (!starts.delete(startOf(row.querySelector('input')))) row.remove();
    for (const start of starts) addRow(start);
    for (const input of inputs()) input.value = kept.get(input.name) ?? '';
    box.open ||= [...kept.values()].some((value) => value !== '');
  }
  add.hidden = false;
  show();
  add.addEventListener('click', () => {
    const last = Math.max(...inputs().map((input) => Number(startOf(input).slice(5, -1))));
    const row = addRow(`rate-${last + 1}-`);
    show();
    keep();
    row.querySelector('input').focus();
  });
  rows.addEventListener('click', ({ target }) => {
    const row = target.closest('[data-remove]')?.closest('tr');
    if (!row) return;
    if (rows.rows.length > 1) row.remove();
    else for (const input of row.querySelectorAll('input')) input.value = '';
    show();
    keep();
    add.focus();
    check().catch(() => {});
  });
  box.addEventListener('input', keep);
  box.addEventListener('change', () => check().catch(() => {}));
}

// a menu of a row closes where it has no focus any more, and by Escape
const closeMenus = (event) => {
  for (const menu of document.querySelectorAll('.menu[open]')) {
    if (event.type === 'keydown' ? event.key !== 'Escape' : menu.contains(event.target)) continue;
    if (menu.contains(document.activeElement)) menu.firstElementChild.focus();
    menu.open = false;
  }
};
for (const type of ['pointerdown', 'focusin', 'keydown'])
  document.addEventListener(type, closeMenus);
