// The CartPole agent on a ULX3S board (Lattice ECP5 LFE5U-85F): it learns from the moment it is configured.
// LED 7 is lit while the agent learns. LEDs 6 to 0 show the return of the last episode, divided by 4 (500 is 125),
// and while the button FIRE1 is pressed, the number of finished episodes. FIRE2 holds the agent.
// To begin again, configure the device again: the agent's memories must be 0 at first, and a reset does not clear them.
module ulx3s_cartpole (
  input clk_25mhz,
  input [2:1] btn,
  output reg [7:0] led,
  output wifi_gpio0
);
  assign wifi_gpio0 = 1'b1;  // keeps the board's ESP32 from restarting the FPGA

  reg [3:0] power_on = 4'd0;
  wire rst = ~&power_on;
  reg [2:1] pressed_asynchronous = 2'b00, pressed = 2'b00;
  wire [31:0] episodes, steps;
  wire [15:0] last_return;
  wire learning, reported;
  always @(posedge clk_25mhz) begin
    if (rst) power_on <= power_on + 4'd1;
    pressed_asynchronous <= btn;
    pressed <= pressed_asynchronous;
    led <= {learning, pressed[1] ? episodes[6:0] : last_return[8:2]};
  end

  wire [166:0] report;
  wire unused = &{1'b0, report, reported, steps};  // for a host
  cartpole_agent agent (
    .clk(clk_25mhz),
    .rst(rst),
    .reports__ready(~pressed[2]),
    .reports__valid(reported),
    .reports__payload(report),
    .steps(steps),
    .episodes(episodes),
    .last_return(last_return),
    .learning(learning)
  );
endmodule
